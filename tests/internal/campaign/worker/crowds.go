package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Step is a step at a latch or a barrier. It is reported when it begins, and again when it is over; the latest
// report counts. Times are history.Now's.
type Step struct {
	ID        uint64 `json:"id"` // of the step within its process
	Process   int    `json:"process"`
	Goroutine int    `json:"goroutine"`
	Name      string `json:"name"`
	Do        Doing  `json:"do"`
	Party     uint64 `json:"party,omitempty"`    // the step by which its party joined
	Counting  bool   `json:"counting,omitempty"` // the party that ends was told to count down
	Deadline  int64  `json:"deadline,omitempty"` // of the party's lease, before it ends or after it has joined
	TTL       int64  `json:"ttl,omitempty"`      // of the lease, in ns, when the party joins

	Begun int64 `json:"begun"`
	Ended int64 `json:"ended,omitempty"` // 0: its process died before the answer
	Answer
}

// Doing is what a Step does.
type Doing string

const (
	Join  Doing = "join"
	Leave Doing = "leave" // a party ends, also by counting down
	Count Doing = "count"
	Reset Doing = "reset"
	Wait  Doing = "wait"
	Look  Doing = "look"
	Await Doing = "await"
)

// Answer is the outcome of a Step.
type Answer struct {
	Outcome Outcome `json:"outcome,omitempty"`
	Left    int     `json:"left,omitempty"`    // the count seen
	Missing int     `json:"missing,omitempty"` // if Incomplete
	Phase   uint64  `json:"phase,omitempty"`   // the phase that was passed or broken
	Died    bool    `json:"died,omitempty"`    // the party that broke it died; otherwise it left
}

// Outcome is how a Step ends.
type Outcome string

const (
	Unsure     Outcome = "" // it may have been carried out, or may be later
	Achieved   Outcome = "achieved"
	Undone     Outcome = "undone"     // it was certainly not carried out
	Full       Outcome = "full"       // nobody can join, or count down in place of a party
	Incomplete Outcome = "incomplete" // it is open, but some are missing
	Anew       Outcome = "anew"       // the count was reset
	Broken     Outcome = "broken"     // a phase was broken
	Lost       Outcome = "lost"       // the party's lease was lost
)

func (r *routine) begin(w Want, s Step) Step {
	s.ID, s.Process, s.Goroutine, s.Name, s.Begun = r.part.steps.Add(1), pid, r.number, w.Name, history.Now()
	r.part.say.line(StepLine, s)
	return s
}

func (r *routine) end(ctx context.Context, s Step, err error) Step {
	s.Ended = history.Now()
	if err != nil {
		s.Answer = answerOf(err)
	} else {
		s.Outcome = Achieved
	}
	r.part.say.line(StepLine, s)
	if (s.Outcome == Unsure || s.Outcome == Undone) && ctx.Err() == nil {
		r.part.say.line(FailureLine, Failure{string(s.Do), err.Error()})
	}
	return s
}

// answerOf takes the library at its word: a request may have been carried out only if the error is ErrAmbiguous.
func answerOf(err error) Answer {
	var incomplete *latch.IncompleteError
	var broken *barrier.BrokenError
	switch {
	case errors.As(err, &incomplete):
		return Answer{Outcome: Incomplete, Missing: incomplete.Missing}
	case errors.As(err, &broken):
		return Answer{Outcome: Broken, Phase: broken.Phase, Died: broken.Died}
	case errors.Is(err, latch.ErrReset):
		return Answer{Outcome: Anew}
	case errors.Is(err, holdfast.ErrLost):
		return Answer{Outcome: Lost}
	case errors.Is(err, holdfast.ErrHeld):
		return Answer{Outcome: Full}
	case errors.Is(err, holdfast.ErrAmbiguous):
		return Answer{}
	}
	return Answer{Outcome: Undone}
}

func (r *routine) latch(w Want) *latch.Latch {
	return latch.New(r.part.library().Client, w.Name, w.Parties, w.option())
}

func (r *routine) countDown(ctx context.Context, w Want) error {
	s := r.begin(w, Step{Do: Count})
	err := r.latch(w).CountDown(ctx)
	r.end(ctx, s, err)
	return err
}

func (r *routine) reset(ctx context.Context, w Want) error {
	s := r.begin(w, Step{Do: Reset})
	err := r.latch(w).Reset(ctx)
	r.end(ctx, s, err)
	return err
}

func (r *routine) look(ctx context.Context, w Want) (err error) {
	s := r.begin(w, Step{Do: Look})
	s.Left, err = r.latch(w).Count(ctx)
	r.end(ctx, s, err)
	return err
}

// wait waits until a latch is open, and returns nil only then.
func (r *routine) wait(ctx context.Context, w Want) error {
	over, cancel := context.WithCancel(context.Background())
	helper := r.helper(w, over, func(h *routine) { _ = h.countDown(over, w) })
	s := r.begin(w, Step{Do: Wait})
	err := r.latch(w).Wait(ctx)
	s = r.end(ctx, s, err)
	cancel()
	helper.Wait()
	if s.Outcome == Incomplete {
		return nil
	}
	return err
}

// longestAlone bounds how long a waiter waits before somebody comes to help it.
const longestAlone = 300 * time.Millisecond

// helper makes another goroutine do something again and again until over ends. It begins after a while, at the
// latest when the process drains. The helper must not wake a waiter that an earlier step should have woken:
// that would hide a lost notification.
func (r *routine) helper(w Want, over context.Context, do func(*routine)) *sync.WaitGroup {
	h := &routine{part: r.part, number: r.number, random: rand.New(rand.NewPCG(r.random.Uint64(), 1))}
	alone := upTo(r.random, longestAlone)
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-over.Done():
			return
		case <-r.part.draining:
		case <-time.After(alone):
		}
		for pause := 5 * time.Millisecond; over.Err() == nil; pause = min(2*pause, time.Second) {
			do(h)
			select {
			case <-over.Done():
			case <-time.After(pause):
			}
		}
	})
	return &running
}

// party is a party of a latch or a barrier.
type party struct {
	*holdfast.Lease
	latch   *latch.Party
	barrier *barrier.Party

	joined Step
	attempts
}

func (r *routine) join(ctx context.Context, w Want) (p party, err error) {
	p.attempts = r.ask(w)
	s := r.begin(w, Step{Do: Join, TTL: int64(w.TTL)})
	if w.Share == Joining {
		if p.latch, err = r.latch(w).Register(ctx); err == nil {
			p.Lease = p.latch.Lease()
		}
	} else {
		theBarrier := barrier.New(r.part.library().Client, w.Name, w.Parties, w.option())
		join := theBarrier.Join
		if w.Try {
			join = theBarrier.TryJoin
		}
		if p.barrier, err = join(ctx); err == nil {
			p.Lease = p.barrier.Lease()
		}
	}
	if err != nil {
		p.gaveUp()
		r.end(ctx, s, err)
		return p, err
	}
	p.granted(w, p.Lease)
	s.Party, s.Deadline = s.ID, history.At(p.Deadline())
	p.joined = r.end(ctx, s, nil)
	return p, nil
}

// leave ends a party, which counts down if counting.
func (r *routine) leave(w Want, p party, counting bool) {
	deadline := p.Deadline()
	p.released(deadline)
	ctx := context.Background()
	s := r.begin(w, Step{Do: Leave, Party: p.joined.ID, Counting: counting, Deadline: history.At(deadline)})
	end := p.Release
	if counting {
		end = p.latch.CountDown
	}
	err := end(ctx)
	if counting && err != nil { // it counts down again
		err = end(ctx)
	}
	r.end(ctx, s, err)
}

// linger gives a party time for its work.
func (r *routine) linger(p party, d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.Done():
	case <-r.part.draining:
	}
}

func (r *routine) takePart(ctx context.Context, w Want) error {
	p, err := r.join(ctx, w)
	if err != nil {
		return err
	}
	d := upTo(r.random, r.part.script.Hold)
	if r.chance(r.part.script.Overdue) {
		d = w.TTL + w.TTL/4
	}
	r.linger(p, d)
	r.leave(w, p, !r.chance(20))
	return nil
}

// meet acts as a party of a barrier for some phases. It returns the error of its last await, so nil if it
// passed that phase.
func (r *routine) meet(ctx context.Context, w Want) error {
	p, err := r.join(ctx, w)
	if err != nil {
		return err
	}
	defer func() { r.leave(w, p, false) }()
	for {
		r.linger(p, upTo(r.random, r.part.script.Hold))
		s, err := r.await(w, p)
		switch {
		case s.Outcome == Lost, r.part.isDraining() && s.Outcome != Broken, r.chance(30):
			return err
		}
	}
}

// await awaits a phase of a barrier. If it takes long, as many others as are needed come to await it, too. They
// stay until this party has passed, so that nothing else wakes it.
func (r *routine) await(w Want, p party) (s Step, err error) {
	over, cancel := context.WithCancel(context.Background())
	var helpers []*sync.WaitGroup
	for range w.Parties - 1 {
		helpers = append(helpers, r.helper(w, over, func(h *routine) { h.stand(over, w) }))
	}
	ctx, giveUp := r.part.context(r.number)
	defer giveUp()
	if r.chance(r.part.script.Impatient) {
		defer time.AfterFunc(upTo(r.random, r.part.script.Patience), giveUp).Stop()
	}
	s, err = r.arrive(ctx, w, p)
	cancel()
	for _, h := range helpers {
		h.Wait()
	}
	return s, err
}

// stand acts as a party of a barrier, and awaits phases, until ctx ends.
func (r *routine) stand(ctx context.Context, w Want) {
	w.Try, w.Fixed, w.MaxHold = false, false, 0
	p, err := r.join(ctx, w)
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		if s, _ := r.arrive(ctx, w, p); s.Outcome != Achieved && s.Outcome != Broken {
			break
		}
	}
	r.leave(w, p, false)
}

func (r *routine) arrive(ctx context.Context, w Want, p party) (s Step, err error) {
	s = r.begin(w, Step{Do: Await, Party: p.joined.ID})
	s.Phase, err = p.barrier.Await(ctx)
	return r.end(ctx, s, err), err
}
