package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

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

// begin begins a step.
func (r *routine) begin(w Want, s Step) Step {
	s.ID, s.Process, s.Goroutine, s.Name, s.Begun = r.part.steps.Add(1), pid, r.number, w.Name, history.Now()
	r.part.say.line(StepLine, s)
	return s
}

// end ends a step that returned err.
func (r *routine) end(ctx context.Context, s Step, err error) Step {
	s.Ended = history.Now()
	told := r.crowds().Tell(err)
	if err != nil {
		s.Answer = told
	} else {
		s.Outcome = Achieved
	}
	r.part.say.line(StepLine, s)
	if (s.Outcome == Unsure || s.Outcome == Undone) && ctx.Err() == nil {
		r.part.say.line(FailureLine, Failure{string(s.Do), err.Error()})
	}
	return s
}

func (r *routine) crowds() Crowds { return r.part.client().(Crowds) }

func (r *routine) countDown(ctx context.Context, w Want) error {
	s := r.begin(w, Step{Do: Count})
	err := r.crowds().CountDown(ctx, w)
	r.end(ctx, s, err)
	return err
}

func (r *routine) reset(ctx context.Context, w Want) error {
	s := r.begin(w, Step{Do: Reset})
	err := r.crowds().Reset(ctx, w)
	r.end(ctx, s, err)
	return err
}

func (r *routine) look(ctx context.Context, w Want) (err error) {
	s := r.begin(w, Step{Do: Look})
	s.Left, err = r.crowds().Count(ctx, w)
	r.end(ctx, s, err)
	return err
}

// wait waits until a latch is open, and returns nil only then.
func (r *routine) wait(ctx context.Context, w Want) error {
	over, cancel := context.WithCancel(context.Background())
	helper := r.helper(w, over, func(h *routine) { _ = h.countDown(over, w) })
	s := r.begin(w, Step{Do: Wait})
	err := r.crowds().Wait(ctx, w)
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

// join makes the goroutine a party.
func (r *routine) join(ctx context.Context, w Want) (party Party, joined Step, a attempts, err error) {
	a = r.ask(w)
	s := r.begin(w, Step{Do: Join, TTL: int64(w.TTL)})
	party, err = r.crowds().Join(ctx, w)
	if err != nil {
		a.gaveUp()
		return nil, r.end(ctx, s, err), nil, err
	}
	a.granted(w, party)
	s.Party, s.Deadline = s.ID, history.At(party.Deadline())
	return party, r.end(ctx, s, nil), a, nil
}

// leave ends a party, which counts down if counting.
func (r *routine) leave(w Want, party Party, joined Step, a attempts, counting bool) {
	deadline := party.Deadline()
	a.released(deadline)
	ctx := context.Background()
	s := r.begin(w, Step{Do: Leave, Party: joined.ID, Counting: counting, Deadline: history.At(deadline)})
	end := party.Release
	if counting {
		end = party.CountDown
	}
	err := end(ctx)
	if counting && err != nil { // it counts down again
		err = end(ctx)
	}
	r.end(ctx, s, err)
}

// linger gives a party time for its work.
func (r *routine) linger(party Party, d time.Duration) {
	select {
	case <-time.After(d):
	case <-party.Done():
	case <-r.part.draining:
	}
}

// takePart acts as a party of a latch.
func (r *routine) takePart(ctx context.Context, w Want) error {
	party, joined, a, err := r.join(ctx, w)
	if err != nil {
		return err
	}
	d := upTo(r.random, r.part.script.Hold)
	if r.chance(r.part.script.Overdue) {
		d = w.TTL + w.TTL/4
	}
	r.linger(party, d)
	r.leave(w, party, joined, a, !r.chance(20))
	return nil
}

// meet acts as a party of a barrier for some phases. It returns the error of its last await, so nil if it
// passed that phase.
func (r *routine) meet(ctx context.Context, w Want) error {
	party, joined, a, err := r.join(ctx, w)
	if err != nil {
		return err
	}
	defer func() { r.leave(w, party, joined, a, false) }()
	for {
		r.linger(party, upTo(r.random, r.part.script.Hold))
		s, err := r.await(w, party, joined)
		switch {
		case s.Outcome == Lost, r.part.isDraining() && s.Outcome != Broken, r.chance(30):
			return err
		}
	}
}

// await awaits a phase of a barrier. If it takes long, as many others as are needed come to await it, too. They
// stay until this party has passed, so that nothing else wakes it.
func (r *routine) await(w Want, party Party, joined Step) (s Step, err error) {
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
	s, err = r.arrive(ctx, w, party, joined)
	cancel()
	for _, h := range helpers {
		h.Wait()
	}
	return s, err
}

// stand acts as a party of a barrier, and awaits phases, until ctx ends.
func (r *routine) stand(ctx context.Context, w Want) {
	w.Try, w.Fixed, w.MaxHold = false, false, 0
	party, joined, a, err := r.join(ctx, w)
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		if s, _ := r.arrive(ctx, w, party, joined); s.Outcome != Achieved && s.Outcome != Broken {
			break
		}
	}
	r.leave(w, party, joined, a, false)
}

func (r *routine) arrive(ctx context.Context, w Want, party Party, joined Step) (s Step, err error) {
	s = r.begin(w, Step{Do: Await, Party: joined.ID})
	s.Phase, err = party.Await(ctx)
	return r.end(ctx, s, err), err
}
