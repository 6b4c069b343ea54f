// Package doctor examines a server, or all those of a Cluster or behind sentinels, and
// says what about them endangers locks.
package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// Config is what is to be examined.
type Config struct {
	Client   redis.UniversalClient
	Addr     string                 // without credentials
	Sentinel *redis.FailoverOptions // of a Client that asks sentinels
	Prefix   string                 // of keys; "" for the library's
	TTL      time.Duration          // of the leases that the server is to be good for
	Watch    time.Duration          // for how long the clocks are watched
}

// examination is one under way.
type examination struct {
	Config
	space keys.Space
	id    string // a random part of names
	nodes []*node
	addrs []string // of the nodes, also of those that were lost

	opened []*redis.Client

	mu    sync.Mutex
	found []Finding
}

// limit bounds an examination, beside the time for which clocks are watched. Checks
// that have not been made by then say so.
const limit = 30 * time.Second

// Examine examines. Its error says that the server cannot be reached, as the library
// says it, or that ctx has ended; everything else is a finding.
func Examine(ctx context.Context, cfg Config) (*Report, error) {
	x, err := inspect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	report := &Report{Server: cfg.Addr, Mode: x.mode(), Servers: x.addrs}
	report.conclude(x.found)
	return report, nil
}

// inspect examines one Config's servers, and gives no verdict.
func inspect(ctx context.Context, cfg Config) (*examination, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "holdfast:"
	}
	space, err := keys.NewSpace(cfg.Prefix)
	if err != nil {
		return nil, errors.Join(holdfast.ErrInvalid, err)
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails, since Go 1.24
	x := &examination{Config: cfg, space: space, id: hex.EncodeToString(random[:])}
	unusable, err := x.reach(ctx)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, limit+cfg.Watch)
	defer cancel()

	x.discover(ctx)
	for _, n := range x.nodes {
		x.addrs = append(x.addrs, n.addr)
	}
	defer func() {
		for _, rdb := range x.opened {
			_ = rdb.Close()
		}
	}()
	x.each(func(n *node) { n.load(ctx) })
	x.nodes = slices.DeleteFunc(x.nodes, func(n *node) bool { return n.lost })
	if unusable != nil {
		x.add(Finding{
			ID: "version", Severity: Problem, Saw: unusable.Error(),
			Consequence: "Holdfast refuses to use this server",
			Remedy:      "upgrade it to a supported version",
		}.on(x.nodes...))
	}
	x.each(func(n *node) { n.settings(ctx) })
	whole := x.topology(ctx)
	x.identity(ctx)
	x.clocks(ctx)
	masters := slices.DeleteFunc(slices.Clone(x.nodes), func(n *node) bool { return n.replica })
	x.eachOf(masters, func(n *node) { n.permissions(ctx) })
	if unusable == nil && whole {
		x.eachOf(masters, func(n *node) { n.notifications(ctx) })
		x.eachOf(masters, func(n *node) { n.trial(ctx) })
	}
	if outer.Err() != nil {
		return nil, context.Cause(outer)
	}
	return x, nil
}

// reach has the library find out what the server is. unusable says that it can be
// reached, but is not supported.
func (x *examination) reach(ctx context.Context) (unusable, err error) {
	locks, err := x.client(x.Client)
	if err != nil {
		return nil, err
	}
	defer shut(context.WithoutCancel(ctx), locks)
	_, err = locks.Mutex(x.name(0)).Status(ctx)
	var server *holdfast.ServerError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !errors.As(err, &server):
		return nil, nil
	case server.Op == "use":
		return server.Err, nil
	case server.Op == "reach":
		return nil, err
	}
	return nil, nil // what does not work shows at the trial
}

// client returns a client of the library that says nothing by itself.
func (x *examination) client(rdb redis.UniversalClient) (*holdfast.Client, error) {
	return holdfastgoredis.New(rdb, &holdfast.Config{
		Logger:            slog.New(slog.DiscardHandler),
		MaxLocalHandovers: -1,
		Owner:             "holdfast doctor",
		Prefix:            x.Prefix,
		RetryTimeout:      time.Second,
		TTL:               trialTTL,
	})
}

// shut ends clients, and gives them time to take back what they may have to.
func shut(ctx context.Context, clients ...*holdfast.Client) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, c := range clients {
		_ = c.Close(ctx)
	}
}

// add adds findings, from any goroutine.
func (x *examination) add(found ...Finding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.found = append(x.found, found...)
}

// each calls f for all nodes at once, and waits.
func (x *examination) each(f func(*node)) { x.eachOf(x.nodes, f) }

func (x *examination) eachOf(nodes []*node, f func(*node)) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() { f(n) })
	}
	wg.Wait()
}

// on says where something was found.
func (f Finding) on(nodes ...*node) Finding {
	f.Servers = []string{}
	for _, n := range nodes {
		f.Servers = append(f.Servers, n.addr)
	}
	return f
}
