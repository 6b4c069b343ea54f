// Package campaign runs histories: random processes use locks on a real server, or several, while faults
// happen, alone and in pairs. Every history is judged. A seed decides what a history does, but not exactly
// when.
//
// To add to it:
//
//   - A kind of fault is a Kind in faults.go.
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
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
	Histories int           // 0: no bound
	Once      bool          // every kind happened alone
	// Dir keeps the histories with findings. "": they are not kept.
	Dir  string
	Seed uint64
	// Replay is the seed of a history that is to be played again and again, with all the Kinds. 0: none.
	Replay uint64
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
	// StopAt, if not empty, ends the campaign at the first history that breaks one of these rules.
	StopAt []Rule
	// Clock makes movable wall clocks for servers; nil: no clock jumps.
	Clock func(testing.TB) Clock
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
	if c.For == 0 && c.Histories == 0 {
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
	if cfg.Binary == "" {
		binary, remove, err := Build(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer remove()
		cfg.Binary = binary
	}
	r := &run{cfg: &cfg, begun: time.Now(), coverage: newCoverage(chosen, cfg.Seed), report: newReport(&cfg, chosen)}
	var lanes sync.WaitGroup
	for i := range cfg.Lanes {
		l := &lane{cfg: &cfg, binary: cfg.Servers[i%len(cfg.Servers)]}
		lanes.Go(func() {
			defer l.close()
			for p := r.plan(ctx, l.binary.Name); p != nil; p = r.plan(ctx, l.binary.Name) {
				r.history(l, p)
			}
		})
	}
	lanes.Wait()
	r.report.Took = time.Since(r.begun)
	return r.report, r.err
}

// run is a campaign under way.
type run struct {
	cfg   *Config
	begun time.Time

	mu       sync.Mutex
	coverage *coverage
	report   *Report
	next     int // number of the next history
	over     bool
	err      error
}

// plan draws the next history, or returns nil if there is none.
func (r *run) plan(ctx context.Context, server string) *Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cfg
	switch {
	case ctx.Err() != nil, r.over,
		c.For > 0 && time.Since(r.begun) > c.For,
		c.Histories > 0 && r.next >= c.Histories,
		c.Once && r.coverage.over() > 0:
		return nil
	}
	seed := seedOf(c.Seed, r.next)
	r.next++
	if c.Replay != 0 {
		return NewPlan(c.Replay, server, c.Mode, c.Subject, r.coverage.kinds)
	}
	return NewPlan(seed, server, c.Mode, c.Subject, r.coverage.draw())
}

// seedOf returns the seed of the nth history. It is below 2^53, so that every reader of JSON gets it right.
func seedOf(seed uint64, n int) uint64 { return rand.NewPCG(seed, uint64(n)).Uint64() >> 11 }

// history plays and judges a plan, and records the outcome. If something other than the locks fails, the
// history is void, and does not count as coverage of its faults.
func (r *run) history(l *lane, p *Plan) {
	begun := time.Now()
	record, err := l.play(context.Background(), p)
	e := Entry{Plan: p}
	if err != nil {
		e.Void = err.Error()
	} else {
		e.Strikes = record.Strikes
		e.Verdict = Judge(record, r.cfg.Subject)
		if r.cfg.Dir != "" && (len(e.Findings) > 0 || e.Unknown > 0) {
			e.Kept = keep(r.cfg.Dir, record, &e)
		}
	}
	e.Took = time.Since(begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.add(e)
	if !e.counts() {
		r.coverage.again(p.kinds)
	}
	r.report.Rounds = r.coverage.over()
	if r.report.Void > 20+r.report.Histories/10 && r.err == nil {
		r.over, r.err = true, fmt.Errorf("too many histories are void; the latest: %s", e.Void)
	}
	r.over = r.over || slices.ContainsFunc(e.Findings, func(f Finding) bool { return slices.Contains(r.cfg.StopAt, f.Rule) })
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

// Build builds the worker that the configuration asks for. Several campaigns can use it as their Binary until
// remove is called.
func Build(ctx context.Context, cfg Config) (binary string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "campaign")
	if err != nil {
		return "", nil, err
	}
	binary = filepath.Join(dir, "worker")
	args := slices.Concat([]string{"build", "-o", binary}, cfg.BuildArgs, []string{cmp.Or(cfg.Worker, workerPackage)})
	cmd := exec.CommandContext(ctx, "go", args...)
	_, file, _, _ := runtime.Caller(0)
	cmd.Dir = filepath.Dir(file) // a campaign tests the checkout that it is part of
	if text, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return binary, func() { _ = os.RemoveAll(dir) }, nil
}
