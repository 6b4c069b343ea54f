//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// side is one side of a lock that both know: the program's name for it, and our lock. Its locks have the
// program's name.
type side struct {
	kind  string
	share int // of everyone; 0 for all of it
	ours  func(c *holdfast.Client, name string, options holdfast.Option) *holdfast.Lock
}

var (
	aMutex = side{"mutex", 0, func(c *holdfast.Client, name string, options holdfast.Option) *holdfast.Lock {
		return c.Mutex(name, options)
	}}
	aReader = side{"reader", 1, func(c *holdfast.Client, name string, options holdfast.Option) *holdfast.Lock {
		return c.RWMutex(name, options).Reader()
	}}
	aWriter = side{"writer", 0, func(c *holdfast.Client, name string, options holdfast.Option) *holdfast.Lock {
		return c.RWMutex(name, options).Writer()
	}}
)

// shares has how much of the lock each kind has.
var shares = map[string]int{aMutex.kind: aMutex.share, aReader.kind: aReader.share, aWriter.kind: aWriter.share}

// everyone exceeds the number of readers.
const everyone = 1000

// peer is a program that does what docs/PROTOCOL.md says, with the scripts that docs/scripts has. A side's kind
// follows its commands, which are otherwise a rival's; "released" and "granted" are followed by the time and the fence.
// "weigh KIND" is answered "weighed" or "held"; "detach MS" by "detached", the time and a ticket, which "adopt TICKET MS"
// adopts; "hammer KIND,KIND THREADS ..." by turns of each kind, with that before the
// thread's number.
type peer struct {
	*rival
	name string
	open func(t *testing.T) redis.UniversalClient
}

// A client in Python that was written from docs/PROTOCOL.md shares locks with ours.
func TestAClientWrittenFromTheProtocol(t *testing.T) {
	t.Parallel()
	program := slices.Clone(setUp(t, "python"))
	program[len(program)-1] = "python/protocol.py"
	scripts, err := filepath.Abs("../../docs/scripts")
	if err != nil {
		t.Fatal(err)
	}
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		open := func(t *testing.T) redis.UniversalClient {
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		}
		for _, c := range []struct {
			name string
			f    func(t *testing.T, p *peer)
		}{
			{"each keeps the other out", func(t *testing.T, p *peer) { keepsOut(t, p, aMutex); keepsOut(t, p, aWriter) }},
			{"each hands over to the other", func(t *testing.T, p *peer) { handsOver(t, p, aMutex); handsOver(t, p, aWriter) }},
			{"a hold changes its weight", weighs},
			{"a lock is asserted again", assertsAgain},
			{"a lock is carried to and fro", carries},
			{"both count to the same", func(t *testing.T, p *peer) { countsWith(t, p, aMutex) }},
			{"both read and write", func(t *testing.T, p *peer) { countsWith(t, p, aReader, aWriter) }},
		} {
			t.Run(c.name, func(t *testing.T) {
				name := strings.ReplaceAll(c.name, " ", "-")
				c.f(t, &peer{run(t, append(slices.Clone(program), s.Addr(), scripts, name)), name, open})
			})
		}
	}
}

// lock returns a lock as another process of ours would have it.
func (p *peer) lock(t *testing.T, s side, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	return s.ours(backend.New(t, nil, drivertest.Of(holdfastgoredis.NewDriver(p.open(t)))), p.name, holdfast.Options(opts...))
}

func keepsOut(t *testing.T, p *peer, s side) {
	l := p.lock(t, s)
	p.expect(t, "granted", fmt.Sprintf("try %s 300000", s.kind))
	var held *holdfast.HeldError
	if _, err := l.TryAcquire(t.Context()); !errors.As(err, &held) || held.Holder.Owner != "py" || held.Holder.PID != p.cmd.Process.Pid {
		t.Errorf("TryAcquire of their %s: %v, by %+v", s.kind, err, held)
	}
	p.expect(t, "released", "release")
	lease := backend.Acquire(t, l)
	p.expect(t, "held", fmt.Sprintf("try %s 60000", s.kind))
	backend.Release(t, lease)
}

// A waiter that had to wait for the end of a lease would not get the lock so soon.
func handsOver(t *testing.T, p *peer, s side) {
	l := p.lock(t, s, holdfast.TTL(5*time.Minute))
	p.expect(t, "granted", fmt.Sprintf("acquire %s 300000", s.kind))
	leases := backend.Start(t, l)
	backend.Waiters(t, l, 1)
	p.expect(t, "released", "release")
	lease := backend.Receive(t, leases)
	p.send(t, fmt.Sprintf("acquire %s 300000", s.kind))
	backend.Waiters(t, l, 1)
	backend.Release(t, lease)
	p.answer(t, "granted")
	backend.Eventually(t, "their claim becomes a lease", func() bool {
		h, err := backend.HolderOf(t.Context(), l)
		return err == nil && h.Owner == "py" && h.TTL > time.Minute
	})
	p.expect(t, "released", "release")
	if _, err := backend.HolderOf(t.Context(), l); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("released by all: %v", err)
	}
}

func weighs(t *testing.T, p *peer) {
	reader := p.lock(t, aReader)
	p.expect(t, "granted", "acquire writer 300000")
	leases := backend.Start(t, reader)
	backend.Waiters(t, reader, 1)
	p.expect(t, "weighed", "weigh reader")
	lease := backend.Receive(t, leases)
	p.expect(t, "held", "weigh writer")
	backend.Release(t, lease)
	p.expect(t, "weighed", "weigh writer")
	if _, err := reader.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("TryAcquire beside a writer: %v", err)
	}
	p.expect(t, "released", "release")
	backend.Release(t, backend.Acquire(t, reader))
}

// A lock is detached by one side and adopted by the other, while a third process waits for it.
func carries(t *testing.T, p *peer) {
	l := p.lock(t, aMutex, holdfast.TTL(5*time.Minute))
	ours := backend.New(t, nil, drivertest.Of(holdfastgoredis.NewDriver(p.open(t))))
	lease := backend.Acquire(t, l)
	waits := backend.Start(t, p.lock(t, aMutex))
	backend.Waiters(t, l, 1)
	for range 2 {
		ticket, err := lease.Detach(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		text, err := ticket.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		p.send(t, fmt.Sprintf("adopt %s 300000", text))
		adopted := p.line(t, "granted", hanging)
		if adopted[0] != "granted" || number(t, adopted[2]) <= int64(lease.Fence()) {
			t.Fatalf("of a lock that had fence %d they say %q", lease.Fence(), adopted)
		}
		if _, err := ours.Adopt(t.Context(), ticket); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Adopt with a ticket that they have used: %v", err)
		}
		p.expect(t, "lost", fmt.Sprintf("adopt %s 300000", text))
		p.send(t, "detach 60000")
		detached := p.line(t, "detached", hanging)
		if detached[0] != "detached" {
			t.Fatalf("they say %q", detached)
		}
		var theirs holdfast.Ticket
		if err := theirs.UnmarshalText([]byte(detached[2])); err != nil {
			t.Fatal(err)
		}
		if lease, err = ours.Adopt(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		if int64(lease.Fence()) <= number(t, adopted[2]) {
			t.Errorf("adopted with fence %d after %s", lease.Fence(), adopted[2])
		}
		p.expect(t, "lost", fmt.Sprintf("adopt %s 300000", detached[2]))
	}
	backend.Release(t, lease)
	backend.Release(t, backend.Receive(t, waits))
}

// The server loses its data while the program holds a lock; the next renewal claims the lock again.
func assertsAgain(t *testing.T, p *peer) {
	l, rdb := p.lock(t, aMutex), p.open(t)
	machine.Undisturbed(t, func() error {
		p.expect(t, "granted", "acquire mutex 3000")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		backend.Eventually(t, "their next renewal", func() bool {
			_, err := backend.HolderOf(t.Context(), l)
			return err == nil
		})
		p.send(t, "release")
		if line := p.line(t, "released", hanging); line[0] != "released" {
			return fmt.Errorf("their release, after their lock was asserted again: %q", line)
		}
		return nil
	})
}

// countsWith makes threads and goroutines of both sides add to a counter that only the lock guards, while
// readers see that it does not change. It goes on until all had turns.
func countsWith(t *testing.T, p *peer, sides ...side) {
	for last := soak.Duration(t) / 3; ; last *= 2 {
		few := ""
		machine.Undisturbed(t, func() (err error) {
			few, err = p.countTogether(t, last, sides)
			return err
		})
		if few == "" {
			return
		}
		if last > time.Minute {
			t.Fatalf("in %s %s", last, few)
		}
		t.Logf("again, for longer: in %s %s", last, few)
	}
}

func (p *peer) countTogether(t *testing.T, last time.Duration, sides []side) (few string, err error) {
	const counter = "counter"
	rdb := p.open(t)
	rdb.Del(t.Context(), counter)
	ours := p.hammerOurs(t, last, counter, sides)
	var kinds []string
	for _, s := range sides {
		kinds = append(kinds, s.kind)
	}
	p.send(t, fmt.Sprintf("hammer %s 2 %d 60000 %s", strings.Join(kinds, ","), last.Milliseconds(), counter))
	theirs := p.turnsOf(t, last)
	mine, err := ours()
	for _, s := range sides {
		for who, events := range map[string][]history.Event{"they": theirs, "ours": mine} {
			if n := len(slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Share != s.share })); n < 2 {
				few += fmt.Sprintf("%s had %d turns as %s; ", who, n, s.kind)
			}
		}
	}
	all := slices.Concat(theirs, mine)
	readers := func(a, b history.Event) bool { return a.Share != 0 && b.Share != 0 }
	for _, v := range slices.Concat(history.Crowding(all, everyone), history.SharedFences(all, true, readers)) {
		err = errors.Join(err, fmt.Errorf("%v", v))
	}
	writes := len(slices.DeleteFunc(slices.Clone(all), func(e history.Event) bool { return e.Share != 0 }))
	if got, failed := rdb.Get(t.Context(), counter).Int(); failed != nil || got != writes {
		err = errors.Join(err, fmt.Errorf("the counter shows %d (%v) after %d increments", got, failed, writes))
	}
	t.Logf("%d turns in %s, %d of them ours", len(all), last.Round(time.Millisecond), len(mine))
	return few, err
}

// turnsOf reads the outcome of a hammer.
func (p *peer) turnsOf(t *testing.T, last time.Duration) (events []history.Event) {
	t.Helper()
	for {
		line := p.line(t, "turn", last+hanging)
		switch {
		case line[0] == "done":
			return events
		case line[0] != "turn" || len(line) != 7:
			t.Fatalf("the program says %q", line)
		}
		e := history.Event{
			ID:        uint64(len(events)),
			Process:   p.cmd.Process.Pid,
			Goroutine: int(number(t, line[2])),
			Name:      p.name,
			Share:     shares[line[1]],
			Asked:     number(t, line[3]),
			Granted:   number(t, line[4]),
			Released:  number(t, line[5]),
			Fence:     uint64(number(t, line[6])),
		}
		e.Deadline = e.Released
		events = append(events, e)
	}
}

// hammerOurs makes goroutines of two clients do the same, for as long as the program does. The returned
// function waits until they have ended, and returns what they did, and what failed.
func (p *peer) hammerOurs(t *testing.T, last time.Duration, counter string, sides []side) func() ([]history.Event, error) {
	recorder, rdb := history.NewRecorder(nil), p.open(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	end := time.Now().Add(last)
	turn := func(ctx context.Context, l *holdfast.Lock, s side, n int) error {
		a := recorder.Ask(n, p.name)
		a.Share(s.share)
		lease, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		a.Granted(lease.Fence(), lease.Deadline(), 0)
		if s.share == 0 {
			err = count(ctx, rdb, counter)
		} else {
			time.Sleep(time.Millisecond)
		}
		a.Released(lease.Deadline())
		return errors.Join(err, lease.Release(ctx))
	}
	n := 0
	for range 2 {
		for _, s := range sides {
			l := p.lock(t, s)
			for range 2 {
				n++
				goroutine := n
				wg.Go(func() {
					for time.Now().Before(end) {
						if err := turn(t.Context(), l, s, goroutine); err != nil {
							mu.Lock()
							failed = errors.Join(failed, err)
							mu.Unlock()
							return
						}
					}
				})
			}
		}
	}
	return func() ([]history.Event, error) {
		wg.Wait()
		events, err := recorder.Events()
		return events, errors.Join(failed, err)
	}
}
