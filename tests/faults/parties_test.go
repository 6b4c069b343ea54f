package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

func left(t *testing.T, l *latch.Latch, want int) {
	t.Helper()
	expect.Of(l.Count(t.Context())).Is(t, "parties are left", want)
}

// Fault: A count-down's reply is lost, the network doubles it, or a copy comes late. It counts once.
func TestCountDownsThatAreRepeated(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c := through(t, p, patient)
	l := latch.New(c, "a", 10, holdfast.TTL(time.Minute))
	parties := make([]*latch.Party, 4)
	for i := range parties {
		var err error
		if parties[i], err = l.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// The server has the scripts from now on.
	expect.OK(t, errors.Join(l.CountDown(t.Context()), parties[0].CountDown(t.Context())))
	left(t, l, 8)
	want := 8
	for what, step := range map[string]struct {
		script driver.Script
		do     func() error
	}{
		"CountDown": {script.LatchCount(), func() error { return l.CountDown(t.Context()) }},
		"CountDown of a party": {script.ShareRelease(), func() error {
			parties = parties[1:]
			return parties[0].CountDown(t.Context())
		}},
	} {
		lost := p.LoseReply(running(step.script, "a"), proxy.Cut)
		expect.Err(t, what, step.do(), nil)
		lost.Wait(t)
		want--
		left(t, l, want)
		doubled := p.Double(running(step.script, "a"))
		expect.Err(t, what, step.do(), nil)
		doubled.Reply(t)
		want--
		left(t, l, want)
	}
	late := p.Hold(running(script.LatchCount(), "a"), proxy.Cut)
	expect.Err(t, "CountDown", l.CountDown(t.Context()), nil)
	want--
	left(t, l, want)
	expect.Contains(t, "the late copy is answered", late.Forward(t), "counted")
	left(t, l, want)

	expect.OK(t, l.Reset(t.Context()))
	lost := p.Hold(running(script.LatchReset(), "a"), proxy.Cut)
	expect.OK(t, l.Reset(t.Context()))
	expect.OK(t, l.CountDown(t.Context()))
	lost.Forward(t)
	left(t, l, 9)
}

// Fault: A party's count-down failed, or may have failed, and the party asks again. It gets the same error: it is
// never told that it counts.
func TestCountDownsThatCameTooLate(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c, other := through(t, p, patient), b.Client(t, nil)
	l, seen := latch.New(c, "a", 2, holdfast.TTL(time.Minute)), latch.New(other, "a", 2)
	join := func() *latch.Party {
		return expect.Of(l.Register(t.Context())).OK(t)
	}
	if err := join().CountDown(t.Context()); err != nil { // the server has the scripts from now on
		t.Fatal(err)
	}
	for what, lost := range map[string]bool{"it does not know": true, "it knows": false} {
		party := join()
		if err := seen.Reset(t.Context()); err != nil { // it is not told of that yet
			t.Fatal(err)
		}
		if lost {
			p.LoseReply(running(script.ShareRelease(), "a"), proxy.Cut)
		}
		first := party.CountDown(t.Context())
		again := party.CountDown(t.Context())
		if first == nil || again == nil || first.Error() != again.Error() || errors.Is(first, holdfast.ErrAmbiguous) != lost ||
			errors.Is(first, holdfast.ErrLost) == lost {
			t.Errorf("%s: CountDown: %v; again: %v", what, first, again)
		}
		expect.Err(t, what+": Release", party.Leave(t.Context()), nil)
		left(t, seen, 2)
	}
}

// Fault: The client is closed before a count-down is answered. The error tells whether it may count: ErrAmbiguous if it had been sent.
func TestCountDownsOfAClientThatIsClosed(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c := through(t, p, holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: time.Minute})
	l, seen := latch.New(c, "a", 3), latch.New(b.Client(t, nil), "a", 3)
	if err := l.CountDown(t.Context()); err != nil { // the server has the script from now on
		t.Fatal(err)
	}
	lost := p.LoseReply(running(script.LatchCount(), "a"), proxy.Cut)
	p.Refuse(true) // new connections
	over, closed := make(chan error, 1), make(chan error, 1)
	go func() { over <- l.CountDown(t.Context()) }()
	lost.Wait(t)
	go func() { closed <- c.Close(t.Context()) }()
	expect.ErrBoth(t, "CountDown when the client is closed", <-over, holdfast.ErrClosed, holdfast.ErrAmbiguous)
	expect.Err(t, "Close", <-closed, nil)
	expect.ErrBut(t, "CountDown of a client that was closed", l.CountDown(t.Context()), holdfast.ErrClosed, holdfast.ErrAmbiguous)
	left(t, seen, 1)
}

func join(t *testing.T, b *barrier.Barrier) *barrier.Party {
	t.Helper()
	return expect.Of(b.Join(t.Context())).OK(t)
}

// arrive awaits in a goroutine.
func arrive(ctx context.Context, p *barrier.Party) <-chan uint64 {
	over := make(chan uint64, 1)
	go func() {
		phase, _ := p.Await(ctx)
		over <- phase
	}()
	return over
}

func wantPhase(t *testing.T, want uint64, all ...<-chan uint64) {
	t.Helper()
	for _, over := range all {
		select {
		case phase := <-over:
			expect.Equal(t, "Await", phase, want)
		case <-time.After(20 * time.Second): // a party that hears nothing looks after 30s
			t.Fatal("a party was not woken")
		}
	}
}

func arrived(t *testing.T, b *backend.Backend, want string) {
	t.Helper()
	rdb := b.Redis(t)
	backend.Eventually(t, want+" have arrived", func() bool {
		return rdb.HGet(t.Context(), "holdfast:{a}", "arrived").Val() == want
	})
}

// Fault: The reply to an arrival at a barrier is lost, or the arrival is given up. It counts once, or not at all.
func TestAwaitsThatAreRepeated(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	one := join(t, barrier.New(through(t, p, patient), "a", 2, holdfast.TTL(3*time.Minute)))
	two := join(t, barrier.New(b.Client(t, nil), "a", 2, holdfast.TTL(3*time.Minute)))
	first := arrive(t.Context(), one)
	arrived(t, b, "1")
	wantPhase(t, 1, first, arrive(t.Context(), two))

	lost := p.LoseReply(running(script.BarrierAwait(), "a"), proxy.Cut) // of the first party
	first = arrive(t.Context(), one)
	lost.Wait(t)
	arrived(t, b, "1")
	select {
	case phase := <-first:
		t.Fatalf("a party alone passes phase %d", phase)
	case <-time.After(300 * time.Millisecond): // it is sent again
	}
	wantPhase(t, 2, arrive(t.Context(), two), first)

	second := arrive(t.Context(), two)
	arrived(t, b, "1")
	lost = p.LoseReply(running(script.BarrierAwait(), "a"), proxy.Cut) // of the last party
	wantPhase(t, 3, arrive(t.Context(), one), second)
	expect.Contains(t, "the lost reply", lost.Reply(t), "tripped")

	late := p.Hold(running(script.BarrierAwait(), "a"), proxy.Cut)
	ctx, cancel := context.WithCancel(t.Context())
	first = arrive(ctx, one)
	late.Wait(t)
	arrived(t, b, "1") // by the second copy
	cancel()
	wantPhase(t, 0, first)
	arrived(t, b, "0")
	expect.Contains(t, "the late copy is answered", late.Forward(t), "stale")
	arrived(t, b, "0")
	first = arrive(t.Context(), one)
	arrived(t, b, "1")
	wantPhase(t, 4, first, arrive(t.Context(), two))
}
