// Package bench measures what locks cost on a user's own server, beside the bare two
// commands of the canonical lock: free, contended and held. It checks, while it measures,
// that no two hold at once and that no lease is lost.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Config says what to measure, and where.
type Config struct {
	// Open makes a client of the server, with connections of its own.
	Open func() (redis.UniversalClient, error)
	// Addr and Mode (server, sentinel or cluster) are for the report.
	Addr, Mode string
	Prefix     string // of keys; "" is the library's
	Logger     *slog.Logger
	For        time.Duration // about how long it takes in all
	Levels     []int         // numbers of goroutines of free
	Leases     int           // of held; fewer if the server does not grant so many in time
	// Progress is told what is done at the moment; it may be nil.
	Progress func(doing string)
}

// Bounds of Config.
const (
	MinFor, MaxFor = time.Second, 10 * time.Minute
	MaxLevels      = 8
	MaxLevel       = 4096
	MaxLeases      = 100_000
)

// ttl is the lease time of all locks: what a bench that was killed holds ends after it.
const ttl = 10 * time.Second

// Of contended: so many clients, each with so many goroutines, which hold and think for so
// long. A hold of no time would reward locks that let the one in who has just left.
const (
	clients    = 4
	goroutines = 8
	hold       = time.Millisecond
	think      = 10 * time.Millisecond // at most
)

// bench is one run.
type bench struct {
	cfg    Config
	plan   plan
	run    string // begins the name of every lock
	space  keys.Space
	sites  []*site // the first measures free and held, all of them contended
	cpu    *serverCPU
	names  []string // of all locks, to be tidied up after
	report *Report
}

// site is a client with connections of its own.
type site struct {
	rdb   redis.UniversalClient
	locks *holdfast.Client
}

// Run measures. The report has what was measured until the end, or until an error; it is nil
// if nothing could begin. The error is a *FaultError when two held at once, or leases were lost
// without another error; ctx's cause when that ended. Nothing is held then, and the keys are
// deleted, unless the server cannot be reached.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	b, err := open(ctx, cfg)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	began := time.Now()
	err = b.measure(ctx)
	b.close(ctx, err)
	r := b.report
	r.TookMillis = time.Since(began).Milliseconds()
	if reason := b.cpu.reason; reason != "" {
		r.LeftOut = append(r.LeftOut, "server CPU: "+reason)
	}
	if _, ok := clientCPU(); !ok {
		r.LeftOut = append(r.LeftOut, "client CPU: this system does not tell")
	}
	return r, verdict(r, interrupted(ctx, err))
}

// verdict is what a run comes to that ended with err.
func verdict(r *Report, err error) error {
	if fault := r.judge(); fault != nil && (err == nil || fault.Overlaps) {
		return fault
	}
	return err
}

// interrupted returns why ctx ended, if it has: errors that followed from that are not worth
// telling.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// patience is for one command: a server that stands still for a moment is measured as it is.
const patience = 5 * time.Second

// open connects, and takes locks in both ways once: a server that does not do shows before
// anything is measured.
func open(ctx context.Context, cfg Config) (*bench, error) {
	b := &bench{cfg: cfg, plan: newPlan(cfg), run: runID()}
	if err := b.connect(ctx); err != nil {
		b.close(ctx, err)
		return nil, err
	}
	return b, nil
}

func (b *bench) connect(ctx context.Context) error {
	prefix := b.cfg.Prefix
	if prefix == "" {
		prefix = "holdfast:"
	}
	var err error
	if b.space, err = keys.NewSpace(prefix); err != nil {
		return fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	var first driver.Driver
	for len(b.sites) < clients {
		rdb, err := b.cfg.Open()
		if err != nil {
			return err
		}
		s := &site{rdb: rdb}
		b.sites = append(b.sites, s)
		d, err := holdfastgoredis.NewDriver(rdb)
		if err != nil {
			return err
		}
		logger := slog.New(slog.DiscardHandler)
		if first == nil { // the others would say the same
			first, logger = d, b.cfg.Logger
		}
		if s.locks, err = holdfast.New(d, &holdfast.Config{TTL: ttl, Prefix: prefix, Logger: logger, CommandTimeout: patience}); err != nil {
			return err
		}
	}
	for _, w := range b.ways(b.sites[0]) {
		if err := cycle(ctx, w.locks(b.name("try"))); err != nil {
			return b.explained(ctx, err)
		}
	}
	info, err := first.Probe(ctx)
	if err != nil {
		return b.explained(ctx, err)
	}
	b.cpu = newServerCPU(b.sites[0].rdb)
	b.report = &Report{
		Server:     b.cfg.Addr,
		Software:   printable.Line(info.Server+" "+info.Version, 100),
		Mode:       b.cfg.Mode,
		Keys:       b.key(b.run),
		Started:    time.Now(),
		TTLMillis:  ttl.Milliseconds(),
		Processors: runtime.NumCPU(),
		Go:         runtime.Version(),
		GoRedis:    redis.Version(),
	}
	return nil
}

// runID is what no other run has. A bench's locks have names of their own, not a prefix of
// their own: with that, the channels of waiters would be none that the ACL of lockers allows,
// and a run that is killed would leave a fence counter for good.
func runID() string {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	return "bench:" + hex.EncodeToString(id[:]) + ":"
}

// name makes the name of a lock, and remembers it.
func (b *bench) name(what string) string {
	name := b.run + what
	b.names = append(b.names, name)
	return name
}

// key is how the keys of locks begin whose names begin so.
func (b *bench) key(name string) string {
	set, err := b.space.Name(name)
	if err != nil {
		panic("bench: a name that cannot be one: " + err.Error())
	}
	return set.Lock[:len(set.Lock)-1]
}

// way is one of the ways to take a lock, which are measured side by side.
type way struct {
	name  string
	locks locker
}

// The names of the ways.
const ours, floor = "Holdfast", "bare"

// ways are those of a site.
func (b *bench) ways(s *site) []way {
	return []way{{ours, fenced(s.locks)}, {floor, bare(s.rdb, b.space)}}
}

func (b *bench) measure(ctx context.Context) error {
	for _, measure := range []func(context.Context) error{b.free, b.contended, b.held} {
		if err := measure(ctx); err != nil {
			return b.explained(ctx, err)
		}
	}
	return nil
}

func (b *bench) progress(format string, args ...any) {
	if b.cfg.Progress != nil {
		b.cfg.Progress(fmt.Sprintf(format, args...))
	}
}

// explained has the library say what is wrong with the server, where a bare command failed:
// it knows the errors, and leaves out of them what is not to be shown.
func (b *bench) explained(ctx context.Context, err error) error {
	var server *holdfast.ServerError
	if ctx.Err() != nil || errors.As(err, &server) || errors.Is(err, holdfast.ErrInvalid) {
		return err
	}
	if why := b.ask(ctx); why != nil {
		return why
	}
	return errors.New("the bare commands: " + printable.Line(err.Error(), 300))
}

// ask returns what is wrong with the server, or nil.
func (b *bench) ask(ctx context.Context) error {
	lease, err := b.sites[0].locks.Mutex(b.name("why")).TryAcquire(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// tidying bounds how long it may take to end what a run has begun.
const tidying = 10 * time.Second

// close ends the clients, and deletes the keys: there are none left of locks that were
// released, but of some their queues and, in a Cluster, their fence counters. err is what the
// run ended with.
func (b *bench) close(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidying)
	defer cancel()
	unreachable := errors.Is(err, holdfast.ErrUnavailable)
	limit := tidying / 3
	if unreachable {
		limit = tidying / 10
	}
	var closing sync.WaitGroup
	for _, s := range b.sites {
		if s.locks != nil {
			closing.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				_ = s.locks.Close(ctx) // what it could not release by then ends with its TTL
			})
		}
	}
	closing.Wait()
	why := "the server cannot be reached"
	if !unreachable {
		if err = b.deleteKeys(ctx); err != nil {
			why = fmt.Sprintf("%.120s", err)
		}
	}
	if (err != nil || unreachable) && b.report != nil {
		b.report.LeftOut = append(b.report.LeftOut, fmt.Sprintf("deleting keys: %s; locks and queues that begin with %s... "+
			"expire within a minute, fence counters in a Cluster within a day", why, b.report.Keys))
	}
	for _, s := range b.sites {
		_ = s.rdb.Close()
	}
}

// deleteKeys deletes what docs/PROTOCOL.md says there may be of each name: all of one lies in
// one slot.
func (b *bench) deleteKeys(ctx context.Context) error {
	const atOnce = 500
	for len(b.names) > 0 {
		n := min(atOnce, len(b.names))
		pipeline := b.sites[0].rdb.Pipeline()
		for _, name := range b.names[:n] {
			set, err := b.space.Name(name)
			if err != nil {
				return err
			}
			pipeline.Del(ctx, set.Lock, set.Queue, set.Fence())
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return err
		}
		b.names = b.names[n:]
	}
	return nil
}
