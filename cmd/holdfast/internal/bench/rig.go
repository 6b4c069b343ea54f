package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// rig is what the experiments of a run work with.
type rig struct {
	clients  []*client // the first is for free and held, all of them are for contended
	names    *names
	cpu      *serverCPU
	software string // what the server calls itself
	report   func(doing string)
}

// client is one client of the server, with its own connections, and the two ways to lock through it.
type client struct {
	rdb   redis.UniversalClient
	locks *holdfast.Client
	ways  [2]locker
}

// The two ways to lock, which take turns: indexes of client.ways and of results.
const (
	ours  = iota // Holdfast
	floor        // the bare commands
)

// wayNames are the ways' names in the report and in the names of locks.
var wayNames = [2]string{"Holdfast", "bare"}

// commandTimeout is long, so that a server that stands still for a moment is measured, not given up.
const commandTimeout = 5 * time.Second

// openRig connects, and takes a lock in both ways: a server that cannot be used is found before anything is measured.
func openRig(ctx context.Context, cfg Config) (*rig, error) {
	names, err := newNames(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	g := &rig{names: names, report: cfg.Progress}
	if err := g.connect(ctx, cfg); err != nil {
		g.close(ctx, err)
		return nil, err
	}
	return g, nil
}

func (g *rig) connect(ctx context.Context, cfg Config) error {
	var first driver.Driver
	for len(g.clients) < contendedClients {
		rdb, err := cfg.Open()
		if err != nil {
			return err
		}
		c := &client{rdb: rdb}
		g.clients = append(g.clients, c)
		d, err := holdfastgoredis.NewDriver(rdb)
		if err != nil {
			return err
		}
		logger := slog.New(slog.DiscardHandler)
		if first == nil { // the others would log the same
			first, logger = d, cfg.Logger
		}
		c.locks, err = holdfast.New(d, &holdfast.Config{TTL: ttl, Prefix: g.names.prefix, Logger: logger, CommandTimeout: commandTimeout})
		if err != nil {
			return err
		}
		c.ways = [2]locker{ours: holdfastLocker(c.locks), floor: bareLocker(rdb, g.names.space)}
	}
	for _, way := range g.clients[0].ways {
		if err := cycle(ctx, way(g.names.add("try"))); err != nil {
			return g.explain(ctx, err)
		}
	}
	info, err := first.Probe(ctx)
	if err != nil {
		return g.explain(ctx, err)
	}
	g.software = printable.Line(info.Server+" "+info.Version, 100)
	g.cpu = newServerCPU(g.clients[0].rdb)
	return nil
}

// takeTurns runs a turn of each way, one right after the other, and returns their results. Each way is first in every
// other round. After an error the results are incomplete.
func takeTurns[T any](round int, turn func(way int) (T, error)) (results [2]T, err error) {
	order := [2]int{ours, floor}
	if round%2 == 1 {
		order = [2]int{floor, ours}
	}
	for _, way := range order {
		if results[way], err = turn(way); err != nil {
			return results, err
		}
	}
	return results, nil
}

// progress reports what is being done.
func (g *rig) progress(format string, args ...any) {
	if g.report != nil {
		g.report(fmt.Sprintf(format, args...))
	}
}

// explain asks the library what is wrong with the server when a bare command has failed: the library knows the
// errors, and leaves out of them what must not be shown.
func (g *rig) explain(ctx context.Context, err error) error {
	var server *holdfast.ServerError
	if ctx.Err() != nil || errors.As(err, &server) || errors.Is(err, holdfast.ErrInvalid) {
		return err
	}
	if why := g.tryLock(ctx); why != nil {
		return why
	}
	return errors.New("the bare commands failed: " + printable.Line(err.Error(), 300))
}

// tryLock takes and releases a lock. Its error says what is wrong with the server.
func (g *rig) tryLock(ctx context.Context) error {
	lease, err := g.clients[0].locks.Mutex(g.names.add("why")).TryAcquire(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// closingTime bounds how long it takes to release locks and delete keys.
const closingTime = 10 * time.Second

// close closes the clients and deletes the run's keys. It returns what it could not do. err is the error of the run.
func (g *rig) close(ctx context.Context, err error) (leftOut []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	unavailable := errors.Is(err, holdfast.ErrUnavailable)
	limit := closingTime / 3
	if unavailable {
		limit = closingTime / 10
	}
	var closing sync.WaitGroup
	for _, c := range g.clients {
		if c.locks != nil {
			closing.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				_ = c.locks.Close(ctx) // locks that it could not release expire
			})
		}
	}
	closing.Wait()
	problem := "the server is unavailable"
	if !unavailable {
		problem = ""
		if err := g.names.deleteKeys(ctx, g.clients); err != nil {
			problem = fmt.Sprintf("%.120s", err)
		}
	}
	if problem != "" {
		leftOut = append(leftOut, fmt.Sprintf("deleting keys: %s; locks and queues that begin with %s... "+
			"expire within a minute", problem, g.names.key(g.names.run)))
	}
	for _, c := range g.clients {
		_ = c.rdb.Close()
	}
	return leftOut
}

// names are the names of a run's locks.
//
// They share a random beginning, not a key prefix: with a prefix of its own, a run would use channels that the ACL
// of a locker does not allow, and a run that is killed would leave a fence counter behind for ever.
type names struct {
	prefix string // of keys
	space  keys.Space
	run    string   // begins all names
	all    []string // so that their keys can be deleted
}

func newNames(prefix string) (*names, error) {
	if prefix == "" {
		prefix = "holdfast:"
	}
	space, err := keys.NewSpace(prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	return &names{prefix: prefix, space: space, run: "bench:" + hex.EncodeToString(id[:]) + ":"}, nil
}

// add returns the name of a lock.
func (n *names) add(what string) string {
	name := n.run + what
	n.all = append(n.all, name)
	return name
}

// key returns the beginning of the keys of locks whose names begin with name.
func (n *names) key(name string) string {
	set, err := n.space.Name(name)
	if err != nil {
		panic("bench: invalid name: " + err.Error())
	}
	return set.Lock[:len(set.Lock)-1]
}

// deleteKeys deletes every key that docs/PROTOCOL.md lists for the names. Released locks may leave a queue. The fence counter,
// which other locks use, too, stays.
func (n *names) deleteKeys(ctx context.Context, clients []*client) error {
	const atOnce = 500
	for len(n.all) > 0 {
		some := n.all[:min(atOnce, len(n.all))]
		pipeline := clients[0].rdb.Pipeline()
		for _, name := range some {
			set, err := n.space.Name(name)
			if err != nil {
				return err
			}
			pipeline.Del(ctx, set.Lock, set.Queue) // one Cluster slot
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return err
		}
		n.all = n.all[len(some):]
	}
	return nil
}
