package sentinel

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// member is a sentinel. Group.mu guards its fields but the address.
type member struct {
	addr       string
	configured bool   // not discovered
	asking     bool   // so no other goroutine asks it
	mistake    string // what its latest answer shows to be wrong, or ""
}

// Answer is what a sentinel says about a master.
type Answer struct {
	Addr   string
	Epoch  int64    // of the sentinel's configuration; 0 if not known
	Others []string // addresses of other sentinels, if asked for
}

// ask asks a sentinel for the master and, if others is set, for other sentinels. It may return after ctx has ended.
func (g *Group) ask(ctx context.Context, m *member, others bool) (a Answer, err error) {
	send := g.to(m.addr)
	about := func(words ...string) resp.Reply {
		return send(ctx, resp.New(append([]string{"sentinel"}, words...)...))[0]
	}
	reply := about("get-master-addr-by-name", g.name)
	master, _ := reply.Value.([]any)
	switch {
	case reply.Err != nil:
		return a, Refused(reply.Err)
	case reply.Value == nil:
		masters, _ := about("masters").Value.([]any)
		return a, UnknownMaster(g.name, Names(masters))
	case len(master) != 2:
		return a, fmt.Errorf("the reply to SENTINEL GET-MASTER-ADDR-BY-NAME has %d fields, not 2", len(master))
	}
	a.Addr = net.JoinHostPort(fmt.Sprint(master[0]), fmt.Sprint(master[1]))
	// These may fail, since their answers are not needed if a majority agrees.
	a.Epoch, _ = strconv.ParseInt(resp.Fields(about("master", g.name).Value)["config-epoch"], 10, 64)
	if others {
		all, _ := about("sentinels", g.name).Value.([]any)
		for _, other := range all {
			fields := resp.Fields(other)
			a.Others = append(a.Others, net.JoinHostPort(fields["ip"], fields["port"]))
		}
	}
	return a, nil
}

// Probe asks a server what it is, as driver.Driver says.
func Probe(ctx context.Context, send resp.Sender) (driver.ServerInfo, error) {
	replies := send(ctx, resp.New("hello"), resp.New("time"))
	if resp.Fields(replies[0].Value)["mode"] == "sentinel" {
		return driver.ServerInfo{}, ErrSentinel
	}
	return resp.Info(replies[0], replies[1])
}
