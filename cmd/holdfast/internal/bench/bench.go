// Package bench measures what locks cost on a user's own server, beside the two bare commands of the usual lock
// (SET NX PX, and a script that compares and deletes). It has three experiments: free, contended and held. While it
// measures, it checks that no two holders overlap and that no lease is lost.
package bench

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// Config says what to measure, and where.
type Config struct {
	// Open makes a client of the server, with its own connections.
	Open func() (redis.UniversalClient, error)
	// Addr and Mode (server, sentinel or cluster) are for the report.
	Addr, Mode string
	Prefix     string // of keys; "" is the library's default
	Logger     *slog.Logger
	For        time.Duration // how long the run takes, approximately
	Levels     []int         // the numbers of goroutines in the experiment free
	Leases     int           // in the experiment held; fewer if the server grants fewer in time
	// Progress, if not nil, is told what is being done.
	Progress func(doing string)
}

// Bounds of Config.
const (
	MinFor, MaxFor = time.Second, 10 * time.Minute
	MaxLevels      = 8
	MaxLevel       = 4096
	MaxLeases      = 100_000
)

// ttl is the TTL of all locks. If a run is killed, its locks expire after this.
const ttl = 10 * time.Second

// An experiment measures one thing. It adds its result to the report even if it returns an error.
type experiment interface {
	run(ctx context.Context, r *Report) error
}

// Run runs all experiments. It returns a nil report if it could not begin, otherwise what was measured up to the end
// or an error. The error is a *FaultError if holders overlapped, or if leases were lost without another error, and
// ctx's cause if ctx ended. When Run returns, it holds no lock and has deleted its keys, unless the server is
// unavailable.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	rig, err := openRig(ctx, cfg)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	r := rig.newReport(cfg)
	p := newPlan(cfg)
	for _, e := range []experiment{newFree(rig, p), newContended(rig, p), newHeld(rig, p)} {
		if err = e.run(ctx, r); err != nil {
			err = rig.explain(ctx, err)
			break
		}
	}
	r.TookMillis = time.Since(r.Started).Milliseconds()
	r.LeftOut = append(r.LeftOut, rig.close(ctx, err)...)
	if reason := rig.cpu.unknown; reason != "" {
		r.LeftOut = append(r.LeftOut, "server CPU: "+reason)
	}
	if _, ok := measure.ProcessCPU(); !ok {
		r.LeftOut = append(r.LeftOut, "client CPU: this system does not report it")
	}
	return r, verdict(r, interrupted(ctx, err))
}

func (g *rig) newReport(cfg Config) *Report {
	return &Report{
		Server:     cfg.Addr,
		Software:   g.software,
		Mode:       cfg.Mode,
		Keys:       g.names.key(g.names.run),
		Started:    time.Now(),
		TTLMillis:  ttl.Milliseconds(),
		Processors: runtime.NumCPU(),
		Go:         runtime.Version(),
		GoRedis:    redis.Version(),
	}
}

// verdict returns the error of a run that ended with err. Overlaps matter more than any error; lost leases may be
// the consequence of one.
func verdict(r *Report, err error) error {
	if fault := r.judge(); fault != nil && (err == nil || fault.Overlaps) {
		return fault
	}
	return err
}

// interrupted returns the cause if ctx has ended: other errors only follow from that.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// plan divides the time of a run.
type plan struct {
	levels                      []int
	leases                      int // 0 leaves the experiment held out
	freeRounds, contendedRounds int
	freeTurn, contendedTurn     time.Duration // of one way, at one level
	held                        time.Duration // in all; a third of it, or leastTaking, is for taking the leases
}

// Turns shorter than these measure little: there are fewer rounds instead.
const (
	shortestFreeTurn      = 400 * time.Millisecond
	shortestContendedTurn = time.Second
)

func newPlan(cfg Config) plan {
	const ways = 2
	free, contended := cfg.For*45/100, cfg.For*25/100
	p := plan{levels: cfg.Levels, leases: cfg.Leases, held: cfg.For - free - contended}
	turns := time.Duration(ways * len(cfg.Levels))
	p.freeRounds = rounds(free/turns, shortestFreeTurn, 5)
	p.freeTurn = free / turns / time.Duration(p.freeRounds)
	p.contendedRounds = rounds(contended/ways, shortestContendedTurn, 3)
	p.contendedTurn = contended / ways / time.Duration(p.contendedRounds)
	return p
}

// rounds returns how many rounds fit into a time: an odd number, so that the median is one of them, and at most most.
func rounds(all, shortestTurn time.Duration, most int) int {
	n := min(max(int(all/shortestTurn), 1), most)
	if n%2 == 0 {
		n--
	}
	return n
}
