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
	Name string // the master's
	// Dial makes the client of a sentinel, and a function that closes it. No context bounds it.
	Dial func(addr string) (send resp.Sender, end func(), err error)

	mu      sync.Mutex
	clients map[string]resp.Sender
	ends    []func()
	closed  bool
}

// Ask has the type Ask. Calls for one address must not overlap.
func (k *Asker) Ask(ctx context.Context, addr string, others bool) (a Answer, err error) {
	send, err := k.client(addr)
	if err != nil {
		return a, Refused(err)
	}
	about := func(words ...string) resp.Reply {
		return send(ctx, resp.New(append([]string{"sentinel"}, words...)...))[0]
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

func (k *Asker) client(addr string) (resp.Sender, error) {
	k.mu.Lock()
	send, closed := k.clients[addr], k.closed
	k.mu.Unlock()
	switch {
	case closed:
		return nil, net.ErrClosed
	case send != nil:
		return send, nil
	}
	send, end, err := k.Dial(addr)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		end()
		return nil, net.ErrClosed
	}
	if k.clients == nil {
		k.clients = map[string]resp.Sender{}
	}
	k.clients[addr], k.ends = send, append(k.ends, end)
	return send, nil
}

// Close closes the clients. None is made any more.
func (k *Asker) Close() {
	k.mu.Lock()
	k.closed = true
	ends := k.ends
	k.mu.Unlock()
	for _, end := range ends {
		end()
	}
}
