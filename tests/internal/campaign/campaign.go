// Package campaign runs histories: random processes use locks on a real server, or several, while faults
// happen, alone and in pairs. Every history is judged. A seed decides what a history does, but not exactly
// when.
//
// To add to it:
//
//   - A kind of fault is a Kind in one of the kinds_*.go files.
//   - Another primitive is a Subject, which says how it is requested, who may hold it
//     at the same time, what else it promises, and what must be granted after the
//     faults. worker.Want gets the fields that a request needs, and the worker's
//     library.go, or routine.get, the call.
//   - Another way to lock, such as a broken one, is a package main that calls
//     worker.Main with its own worker.Opener: Config.Worker. The library with other
//     sources is built with Config.BuildArgs "-overlay FILE".
package campaign

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Config says what a campaign does. The zero value makes every kind of fault happen once, on the servers of
// this machine.
type Config struct {
	// The campaign ends at the first of these bounds that it reaches; without any, at Once.
	For       time.Duration // 0: no bound
	Histories int           // of this campaign; 0: no bound
	Pairs     int           // every pair of kinds happened this often; 0: no bound
	Once      bool          // every kind happened alone
	// Dir keeps what was found, so that a campaign can be continued later. "": nothing is kept.
	Dir  string
	Seed uint64
	// Lanes is how many histories run at once. Default: 4 for each processor, or 2 if a lock is on several
	// servers.
	Lanes   int
	Servers []server.Binary // default: all of this machine
	// Kinds are the faults to choose from. Empty: all. Calm: none at all.
	Kinds []string
	Calm  bool
	// Mode is Default by default. Locks on several servers are always Strict.
	Mode Mode
	// Subject is the kind of lock. Default: the mutex.
	Subject Subject
	// Worker is the package of the processes that use locks; its main calls worker.Main. Default: the one that
	// uses this library. BuildArgs are further arguments of go build, such as -race or -overlay.
	Worker    string
	BuildArgs []string
	Binary    string // built from them by Build; "": it is built for this campaign
	// StopAtViolation ends the campaign at the first history with a finding. StopAt, if not empty, ends it at
	// the first history that breaks one of these rules.
	StopAtViolation bool
	StopAt          []Rule
	// Clock makes movable wall clocks for servers; nil: no clock jumps.
	Clock func(testing.TB) Clock
	// Progress gets a line every few seconds; nil: none.
	Progress io.Writer
}

// workerPackage uses the locks of this library.
const workerPackage = "github.com/holdfast-go/holdfast/tests/cmd/campaignworker"

func (c *Config) fill() (err error) {
	c.Subject = c.subject()
	if c.Lanes == 0 {
		c.Lanes = 4 * runtime.NumCPU()
		if c.Subject.Nodes() > 1 {
			c.Lanes /= 2
		}
	}
	if c.Servers == nil {
		if c.Servers, err = server.All(); err != nil {
			return err
		}
	}
	c.Mode = c.mode()
	if c.Worker == "" {
		c.Worker = workerPackage
	}
	if c.For == 0 && c.Histories == 0 && c.Pairs == 0 {
		c.Once = true
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64() >> 11
	}
	return nil
}

// Run runs a campaign until it reaches its bounds or ctx ends. Histories under way are then finished. A report
// with findings is not an error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	for _, e := range r.book.earlier {
		r.count(e)
	}
	r.next = len(r.book.earlier)
	return r.report, r.play(func(server string) *Plan { return r.plan(ctx, server) })
}

// Replay plays the plan of that seed the given number of times, with all the kinds of the configuration.
func Replay(ctx context.Context, cfg Config, seed uint64, times int) (*Report, error) {
	cfg.Seed = seed
	r, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.report, r.play(func(server string) *Plan {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.begunNow++; r.begunNow > times || ctx.Err() != nil || r.over {
			return nil
		}
		return NewPlan(seed, server, r.cfg.Mode, r.cfg.Subject, r.coverage.kinds)
	})
}

// run is a campaign under way.
type run struct {
	cfg    *Config
	begun  time.Time
	worker string // the binary
	remove func() // removes it
	book   *ledger

	mu       sync.Mutex
	coverage *coverage
	report   *Report
	next     int // number of the next history
	begunNow int // histories begun by this campaign
	over     bool
	err      error
}

// prepare prepares everything that lanes need.
func prepare(ctx context.Context, cfg Config) (*run, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	var chosen []*Kind
	if !cfg.Calm {
		var err error
		if chosen, err = Kinds(&cfg, cfg.Kinds...); err != nil {
			return nil, err
		}
	}
	binary, remove := cfg.Binary, func() {}
	if binary == "" {
		var err error
		if binary, remove, err = buildWorker(ctx, cfg.Worker, cfg.BuildArgs); err != nil {
			return nil, err
		}
	}
	book, err := openLedger(&cfg)
	if err != nil {
		remove()
		return nil, err
	}
	return &run{
		cfg: &cfg, begun: time.Now(), worker: binary, remove: remove, book: book,
		coverage: newCoverage(chosen, cfg.Seed), report: newReport(&cfg, chosen),
	}, nil
}

func (r *run) close() {
	r.remove()
	r.book.close()
}

// play makes every lane play plans until next returns nil.
func (r *run) play(next func(server string) *Plan) error {
	if r.cfg.Progress != nil {
		stop := r.showProgress()
		defer stop()
	}
	var lanes sync.WaitGroup
	for i := range r.cfg.Lanes {
		l := newLane(r.cfg, r.cfg.Servers[i%len(r.cfg.Servers)], r.worker)
		lanes.Go(func() {
			defer l.close()
			for p := next(l.binary.Name); p != nil; p = next(l.binary.Name) {
				r.history(l, p)
			}
		})
	}
	lanes.Wait()
	r.report.Took = time.Since(r.begun)
	return r.err
}

// plan draws the next history, or returns nil if there is none.
func (r *run) plan(ctx context.Context, server string) *Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cfg
	switch {
	case ctx.Err() != nil, r.over,
		c.For > 0 && time.Since(r.begun) > c.For,
		c.Histories > 0 && r.begunNow >= c.Histories,
		c.Pairs > 0 && r.coverage.complete(c.Pairs),
		c.Once && r.coverage.complete(0):
		return nil
	}
	seed := seedOf(c.Seed, r.next)
	chosen := r.coverage.draw(c.Once)
	r.next++
	r.begunNow++
	return NewPlan(seed, server, c.Mode, c.Subject, chosen)
}

// seedOf returns the seed of the nth history. It is below 2^53, so that every reader of JSON gets it right.
func seedOf(seed uint64, n int) uint64 { return rand.NewPCG(seed, uint64(n)).Uint64() >> 11 }

// history plays and judges a plan, and records the outcome. If something other than the locks fails, the
// history is void, and does not count as coverage of its faults.
func (r *run) history(l *lane, p *Plan) {
	begun := time.Now()
	record, err := l.play(context.Background(), p)
	e := entryOf(p, begun)
	if err != nil {
		e.Void = err.Error()
	}
	if err == nil {
		e.Strikes = record.Strikes
		e.Verdict = Judge(record, r.cfg.Subject)
		if len(e.Findings) > 0 || e.Unknown > 0 {
			e.Kept = r.book.keep(record, &e)
		}
	}
	e.Took = time.Since(begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(e)
	if !e.counts() {
		r.coverage.void(p.kinds)
	}
	if r.report.Void > 20+r.report.Histories/10 && r.err == nil {
		r.over, r.err = true, fmt.Errorf("too many histories are void; the latest: %s", e.Void)
	}
	if err := r.book.write(e); err != nil && r.err == nil {
		r.over, r.err = true, err
	}
	r.over = r.over || r.cfg.enough(e.Findings)
}

// enough reports whether these findings end the campaign.
func (c *Config) enough(findings []Finding) bool {
	return c.StopAtViolation && len(findings) > 0 || slices.ContainsFunc(findings, func(f Finding) bool {
		return slices.Contains(c.StopAt, f.Rule)
	})
}

// count adds a history to the report and, if it is an earlier one, to the coverage.
func (r *run) count(e Entry) {
	r.report.add(e)
	if r.begunNow == 0 && e.counts() {
		r.coverage.add(e.Kinds)
	}
	r.report.Pairs, r.report.LeastPair, r.report.LeastAlone = r.coverage.state()
}

// mode returns how the locks deal with a server that loses its data.
func (c *Config) mode() Mode {
	if c.subject().Nodes() > 1 {
		return Strict
	}
	return cmp.Or(c.Mode, Default)
}

// Within reports whether exclusion is promised during a fault of that kind.
func (c *Config) Within(k *Kind) bool { return k.Within(c.mode()) }

// subject is the kind of lock that is tested.
func (c *Config) subject() Subject {
	if c.Subject == nil {
		return Mutex{}
	}
	return c.Subject
}
