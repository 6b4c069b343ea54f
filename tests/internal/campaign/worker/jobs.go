package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/transfer"
)

// Call is one call of Do. It is reported whenever it gets further; the latest report counts. Times are
// history.Now's.
type Call struct {
	ID        uint64        `json:"id"` // of the call within its process
	Process   int           `json:"process"`
	Goroutine int           `json:"goroutine"`
	Name      string        `json:"name"`
	Slot      string        `json:"slot,omitempty"`
	Window    time.Duration `json:"window,omitempty"` // if it has no slot

	Fence    uint64 `json:"fence,omitempty"`    // of its own run; 0: it has not run the job
	Held     int64  `json:"held,omitempty"`     // when the run began, before it checked the lease; 0: the lease was over
	Result   string `json:"result,omitempty"`   // of its own run
	Finished int64  `json:"finished,omitempty"` // when it was about to report success; 0: it failed, or its process ended
	Returned int64  `json:"returned,omitempty"` // 0: its process died before the answer
	Done     *Done  `json:"done,omitempty"`     // nil after an error
	Error    string `json:"error,omitempty"`
}

// Done is the run of a job that counts.
type Done struct {
	Fence  uint64 `json:"fence"`
	Result string `json:"result"`
	At     int64  `json:"at"`  // in µs, by the server's clock
	Try    int    `json:"try"` // within its window
	Here   bool   `json:"here"`
}

// slot returns the name of the present window, by the clock that all processes share.
func (w *Want) slot() string {
	if !w.Slots {
		return ""
	}
	return fmt.Sprint(history.Now() / int64(w.Window))
}

// errJob is the error of runs that fail.
var errJob = errors.New("the job failed")

// job calls Do with a job that fails now and then, or does not notice the loss of its lease.
func (r *routine) job(ctx context.Context, w Want, slot string) error {
	p := r.part
	c := Call{ID: p.calls.Add(1), Process: pid, Goroutine: r.number, Name: w.Name, Slot: slot, Window: w.Window}
	a := r.ask(w)
	window := once.Every(w.Window)
	if slot != "" {
		window = once.Slot(slot, time.Hour)
	}
	theJob := once.New(p.library().Client, w.Name, window, optionsOf[once.Option](w)...)
	do := theJob.Do
	if w.Try {
		do = theJob.TryDo
	}
	run, err := do(ctx, func(_ context.Context, lease *holdfast.Lease) (string, error) {
		c.Fence, c.Result, c.Held = lease.Fence(), fmt.Sprint(pid, " ", c.ID), history.Now()
		if lease.Err() != nil {
			c.Held = 0
		}
		p.say.line(CallLine, c)
		_, lost := r.use(w, a, lease)
		a = nil
		if w.Fixed && w.TTL < time.Second && r.chance(10) { // the run takes longer than its lease
			select {
			case <-time.After(w.TTL + w.TTL/4):
			case <-p.draining:
			}
			lost = true
		}
		if !p.isDraining() && (lost && r.chance(50) || r.chance(30)) {
			return "", errJob
		}
		c.Finished = history.Now()
		p.say.line(CallLine, c)
		return c.Result, nil
	})
	c.Returned = history.Now()
	a.gaveUp()
	if err == nil {
		c.Done = &Done{Fence: run.Fence, Result: run.Result, At: run.Time.UnixMicro(), Try: run.Try, Here: run.Here}
	} else {
		c.Error = err.Error()
	}
	p.say.line(CallLine, c)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errJob) {
		p.say.line(FailureLine, Failure{"job", err.Error()})
	}
	return err
}

// lead campaigns for one term or several.
func (r *routine) lead(ctx context.Context, w Want) error {
	p := r.part
	a := r.ask(w)
	theElection := election.New(p.library().Mutex(w.Name, optionsOf[holdfast.MutexOption](w)...))
	err := theElection.Run(ctx, func(_ context.Context, term *holdfast.Lease) error {
		r.use(w, a, term)
		a = r.ask(w)
		if !p.isDraining() && r.chance(50) {
			return election.ErrResign
		}
		return nil
	})
	a.gaveUp()
	if err != nil && ctx.Err() == nil {
		p.say.line(FailureLine, Failure{"lead", err.Error()})
	}
	return err
}

// finish requests what must be granted after the faults, for as long as it takes. The campaign's patience
// bounds that.
func (p *part) finish() {
	r := p.newRoutine(p.script.Goroutines, 1<<32)
	defer r.resource.close()
	for _, w := range p.script.Finally {
		if w.Share != Job {
			p.insist(func() error { return r.get(context.Background(), w) })
			continue
		}
		for _, slot := range p.slotsOf(w.Name) {
			p.insist(func() error { return r.job(context.Background(), w, slot) })
		}
	}
}

// insist repeats something until it succeeds, with growing pauses: requests that fail and are taken back can
// load a busy machine so much that nothing is answered in time.
func (p *part) insist(do func() error) {
	begun := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if err == nil {
			return
		}
		time.Sleep(pause/2 + rand.N(pause))
		if p.script.Nodes == nil || !p.script.Operator || !errors.Is(err, holdfast.ErrNotAdmitted) {
			continue
		}
		// The servers may be admitted only when every earlier lease is over.
		time.Sleep(p.script.MaxTTL - time.Since(begun))
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		if err := p.library().Admit(ctx); err != nil {
			p.say.line(FailureLine, Failure{"admit", err.Error()})
		}
		cancel()
	}
}

// tried records that a job was requested, for finish.
func (p *part) tried(name, slot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[name] == nil {
		p.slots[name] = map[string]bool{}
	}
	p.slots[name][slot] = true
}

func (p *part) slotsOf(name string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slot := range p.slots[name] {
		all = append(all, slot)
	}
	return all
}

// What an Access does with tickets for its name, in place of an access.
const (
	Put  = "put"  // leaves its ticket for any process
	Pick = "pick" // takes any ticket that was left; the answer has it, or ""
)

// bear adopts the locks for which this process or another has left tickets, until all turns of this process have ended and no
// ticket is left. So each ticket of a process that survives is used or expires.
func (p *part) bear(number int, w Want) {
	r := p.newRoutine(number, uint64(number))
	defer r.resource.close()
	for {
		over := false
		select {
		case <-p.drained:
			over = true
		default:
		}
		ticket := r.ticket(Pick, w.Name, "")
		switch {
		case ticket != "":
			r.adopt(w, ticket)
		case over:
			return
		}
		time.Sleep(upTo(r.random, 5*time.Millisecond))
	}
}

// adopt adopts a lock, uses it and releases it, or detaches it again.
func (r *routine) adopt(w Want, text string) {
	p := r.part
	a := r.ask(w)
	var ticket transfer.Ticket
	err := ticket.UnmarshalText([]byte(text))
	var got *holdfast.Lease
	if err == nil {
		got, err = transfer.Adopt(context.Background(), p.library().Client, ticket, w.option())
	}
	if err != nil {
		a.gaveUp()
		p.say.line(FailureLine, Failure{"adopt", err.Error()})
		if !errors.Is(err, holdfast.ErrLost) { // the ticket may still be good
			r.put(w.Name, text)
		}
		return
	}
	w.adopted = true
	lease, _ := r.use(w, a, got)
	if err := lease.Release(context.Background()); err != nil {
		p.say.line(FailureLine, Failure{"release", err.Error()})
	}
}

// detach detaches a lease now and then, and returns the ticket; "" if there is none. Once the process drains, nobody else
// may be left to adopt the lock.
func (r *routine) detach(w Want, lease Lease) (ticket string) {
	if r.part.isDraining() || !r.chance(50) {
		return ""
	}
	own, is := lease.(*holdfast.Lease) // an adopted one
	if !is {
		own = lease.(held).Lease
	}
	detached, err := transfer.Detach(context.Background(), own, time.Millisecond+upTo(r.random, w.TTL))
	var text []byte
	if err == nil {
		text, err = detached.MarshalText()
	}
	if err != nil {
		r.part.say.line(FailureLine, Failure{"detach", err.Error()})
		return ""
	}
	return string(text)
}

// put leaves a ticket for any process.
func (r *routine) put(name, ticket string) { r.ticket(Put, name, ticket) }

func (r *routine) ticket(what, name, ticket string) string {
	x := Access{Process: pid, Goroutine: r.number, Name: name, Carry: what, Ticket: ticket}
	if err := r.resource.access(&x); err != nil {
		r.part.say.line(FailureLine, Failure{"resource", err.Error()})
		return ""
	}
	return x.Ticket
}
