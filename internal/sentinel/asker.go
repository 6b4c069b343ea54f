package sentinel

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// Asker asks sentinels about a master, with a client for each that it keeps.
type Asker struct {
	Name string                            // the master's
	Dial func(addr string) (Client, error) // makes the client of a sentinel; it may take longer than any context

	mu      sync.Mutex
	clients map[string]Client
	closed  bool
}

// Client is a client of one sentinel.
type Client interface {
	Send(ctx context.Context, commands ...resp.Command) []resp.Reply
	Close()
}

// Ask is an Ask. It is not called again for an address before it has returned.
func (k *Asker) Ask(ctx context.Context, addr string, others bool) (a Answer, err error) {
	client, err := k.client(addr)
	if err != nil {
		return a, Refused(err)
	}
	about := func(words ...string) resp.Reply {
		return client.Send(ctx, resp.New(append([]string{"sentinel"}, words...)...))[0]
	}
	reply := about("get-master-addr-by-name", k.Name)
	master, _ := reply.Value.([]any)
	switch {
	case reply.Err != nil:
		return a, Refused(reply.Err)
	case reply.Value == nil:
		masters, _ := about("masters").Value.([]any)
		return a, UnknownMaster(k.Name, Names(masters))
	case len(master) != 2:
		return a, fmt.Errorf("the reply to SENTINEL GET-MASTER-ADDR-BY-NAME has %d fields, not 2", len(master))
	}
	a.Addr = net.JoinHostPort(fmt.Sprint(master[0]), fmt.Sprint(master[1]))
	// These may fail, since their answers are not needed if a majority agrees.
	a.Epoch, _ = strconv.ParseInt(resp.Fields(about("master", k.Name).Value)["config-epoch"], 10, 64)
	if others {
		all, _ := about("sentinels", k.Name).Value.([]any)
		for _, other := range all {
			fields := resp.Fields(other)
			a.Others = append(a.Others, net.JoinHostPort(fields["ip"], fields["port"]))
		}
	}
	return a, nil
}

func (k *Asker) client(addr string) (Client, error) {
	k.mu.Lock()
	client, closed := k.clients[addr], k.closed
	k.mu.Unlock()
	switch {
	case closed:
		return nil, net.ErrClosed
	case client != nil:
		return client, nil
	}
	client, err := k.Dial(addr)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		client.Close()
		return nil, net.ErrClosed
	}
	if k.clients == nil {
		k.clients = map[string]Client{}
	}
	k.clients[addr] = client
	return client, nil
}

// Close closes the clients. None is made any more.
func (k *Asker) Close() {
	k.mu.Lock()
	k.closed = true
	clients := k.clients
	k.mu.Unlock()
	for _, client := range clients {
		client.Close()
	}
}
