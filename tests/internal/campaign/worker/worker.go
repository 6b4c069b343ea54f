package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Main obeys the orders on standard input until it ends, and answers on standard output.
func Main(open Opener) {
	if err := obey(open, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "campaign worker:", err)
		os.Exit(1)
	}
}

func obey(open Opener, in io.Reader, out io.Writer) error {
	say := &speaker{out: out}
	var p *part
	for orders := json.NewDecoder(bufio.NewReader(in)); ; {
		var o Order
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if o.Do != Start && p == nil {
			return fmt.Errorf("order %q before a script", o.Do)
		}
		switch o.Do {
		case Start:
			var err error
			if p, err = begin(open, *o.Script, say); err != nil {
				return err
			}
			say.line(StartedLine, struct{}{})
		case Cancel:
			p.cancelAll()
		case Reopen:
			go p.reopen()
		case Hog:
			hog(o.For)
		case Drain:
			p.drain()
		case End:
			say.line(EndedLine, p.end())
			p = nil
		default:
			return fmt.Errorf("unknown order %q", o.Do)
		}
	}
}

// speaker writes each line in one Write, so that a process that is killed leaves what it knew.
type speaker struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *speaker) line(kind byte, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	s.write(kind, append(text, '\n'))
}

func (s *speaker) write(kind byte, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(append([]byte{kind, ' '}, text...)); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

// events makes lines of what a history.Recorder writes.
type events struct{ *speaker }

func (e events) Write(line []byte) (int, error) {
	e.write(EventLine, line)
	return len(line), nil
}

// hog keeps every thread of the process busy.
func hog(d time.Duration) {
	end := time.Now().Add(d)
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for time.Now().Before(end) {
			}
		}()
	}
}

// settled waits for a while until no more goroutines are left than before, and returns how many are left.
func settled(before int) int {
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if n := runtime.NumGoroutine(); n <= before || time.Now().After(end) {
			return n
		}
	}
}

// closing bounds Close: nothing that is held then lasts longer.
const closing = 20 * time.Second

func closeLocks(l Locks) error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return l.Close(ctx)
}

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
