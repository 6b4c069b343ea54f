package worker

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/transfer"
)

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
