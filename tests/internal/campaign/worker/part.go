package worker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// part is a script being carried out.
type part struct {
	script Script
	open   Opener
	say    *speaker
	record *history.Recorder
	before int // goroutines

	draining chan struct{}
	drained  chan struct{} // closed when all turns have ended
	running  sync.WaitGroup
	bearing  sync.WaitGroup
	accesses atomic.Uint64
	calls    atomic.Uint64
	steps    atomic.Uint64

	mu      sync.Mutex
	locks   Locks
	retired sync.WaitGroup // clients that are closing
	errs    error          // of closing them
	cancels map[int]context.CancelFunc
	slots   map[string]map[string]bool // of the jobs that were requested, by name
}

func begin(open Opener, s Script, say *speaker) (*part, error) {
	p := &part{
		script: s, open: open, say: say,
		record:   history.NewRecorder(events{say}),
		before:   runtime.NumGoroutine(),
		draining: make(chan struct{}),
		drained:  make(chan struct{}),
		cancels:  map[int]context.CancelFunc{},
		slots:    map[string]map[string]bool{},
	}
	var err error
	if p.locks, err = open(s.Setting); err != nil {
		return nil, err
	}
	if s.Admit {
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		if err := p.library().Admit(ctx); err != nil {
			return nil, err
		}
	}
	for g := range s.Goroutines {
		p.running.Go(func() { p.routine(g) })
	}
	for i, w := range s.Wants {
		if w.Share == Carried {
			p.bearing.Go(func() { p.bear(s.Goroutines+1+i, w) })
		}
	}
	return p, nil
}

// routine is one goroutine's work: turn after turn until the process drains.
func (p *part) routine(g int) {
	r := p.newRoutine(g, uint64(g))
	defer r.resource.close()
	for {
		r.turn()
		select {
		case <-p.draining:
			return
		case <-time.After(upTo(r.random, p.script.Think)):
		}
	}
}

func (p *part) drain() {
	close(p.draining)
	go func() {
		p.running.Wait()
		close(p.drained)
		p.bearing.Wait()
		p.finish()
		p.say.line(DrainedLine, struct{}{})
	}()
}

func (p *part) isDraining() bool {
	select {
	case <-p.draining:
		return true
	default:
		return false
	}
}

func (p *part) client() Locks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locks
}

// library returns the locks of this library, for what others do not have.
func (p *part) library() *library { return p.client().(*library) }

// reopen continues with a new client, and closes the old one while it is in use.
func (p *part) reopen() {
	fresh, err := p.open(p.script.Setting)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	old := p.locks
	p.locks = fresh
	p.retired.Add(1)
	p.mu.Unlock()
	defer p.retired.Done()
	err = closeLocks(old)
	p.mu.Lock()
	p.errs = cmp.Or(p.errs, err)
	p.mu.Unlock()
}

func (p *part) end() Ended {
	p.retired.Wait()
	err := cmp.Or(closeLocks(p.client()), p.errs)
	e := Ended{Before: p.before, After: settled(p.before)}
	if err != nil {
		e.Close = err.Error()
	}
	if e.After > e.Before {
		buffer := make([]byte, 64<<10)
		e.Stacks = string(buffer[:runtime.Stack(buffer, true)])
	}
	return e
}

// cancelAll ends the contexts of all acquires under way.
func (p *part) cancelAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.cancels {
		cancel()
	}
}

// context returns the context for a goroutine's next acquire.
func (p *part) context(g int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancels[g] = cancel
	return ctx, cancel
}

func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(max(d, 1))))
}
