package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// routine is the state of one goroutine's turns.
type routine struct {
	part     *part
	number   int
	random   *rand.Rand
	resource *resource
}

// newRoutine returns a goroutine with that number, which draws the numbers of a stream of the script's seed.
func (p *part) newRoutine(number int, stream uint64) *routine {
	random := rand.New(rand.NewPCG(p.script.Seed, stream))
	return &routine{part: p, number: number, random: random, resource: &resource{socket: p.script.Resource}}
}

// chance returns true with the given probability.
func (r *routine) chance(percent int) bool { return r.random.IntN(100) < percent }

// want chooses how to request a lock.
func (r *routine) want() Want {
	wants := r.part.script.Wants
	sum := 0
	for _, w := range wants {
		sum += w.Weight
	}
	n := r.random.IntN(sum)
	for _, w := range wants {
		if n -= w.Weight; n < 0 {
			return w
		}
	}
	panic("unreachable")
}

// turn requests a lock once, and uses it if it is granted.
func (r *routine) turn() {
	p := r.part
	w := r.want()
	ctx, cancel := p.context(r.number)
	defer cancel()
	if r.chance(p.script.Impatient) {
		defer time.AfterFunc(upTo(r.random, p.script.Patience), cancel).Stop()
	}
	_ = r.get(ctx, w)
}

// get requests a lock in the way of its kind, and uses it if it is granted.
func (r *routine) get(ctx context.Context, w Want) error {
	switch w.Share {
	case Job:
		slot := w.slot()
		r.part.tried(w.Name, slot)
		return r.job(ctx, w, slot)
	case Leading:
		return r.lead(ctx, w)
	case Joining:
		return r.takePart(ctx, w)
	case Counting:
		return r.countDown(ctx, w)
	case Waiting:
		return r.wait(ctx, w)
	case Looking:
		return r.look(ctx, w)
	case Resetting:
		return r.reset(ctx, w)
	case Meeting:
		return r.meet(ctx, w)
	case Nested:
		return r.nested(ctx, w)
	}
	return r.acquire(ctx, w)
}

// acquire requests a lock, uses it if it is granted, and releases it.
func (r *routine) acquire(ctx context.Context, w Want) error {
	p := r.part
	a := r.ask(w)
	lease, err := p.client().Acquire(ctx, w)
	if err != nil {
		a.gaveUp()
		if ctx.Err() == nil {
			p.say.line(FailureLine, Failure{"acquire", err.Error()})
		}
		return err
	}
	lease, _ = r.use(w, a, lease)
	if err := lease.Release(ctx); err != nil {
		p.say.line(FailureLine, Failure{"release", err.Error()})
	}
	return nil
}

// use uses a granted lease until it is lost, detached or should be released. It returns the lease that is left to
// release.
func (r *routine) use(w Want, a attempts, lease Lease) (rest Lease, lost bool) {
	fences := fencesOf(w, lease)
	a.granted(w, lease)
	lost = r.hold(w, a, lease)
	if h, ok := lease.(held); ok && w.Again && !lost { // an adopted lock is not one of them
		lease, lost = r.again(w, a, h)
	}
	ticket := ""
	if w.Share == Carried && !lost {
		ticket = r.detach(w, lease)
	}
	a.released(lease.Deadline())
	if ticket != "" {
		r.put(w.Name, ticket)
	}
	if lost {
		// A holder that does not check its lease would write now. The resource must refuse that if another
		// holder had access meanwhile.
		select {
		case <-time.After(upTo(r.random, w.TTL/4)):
		case <-r.part.draining:
		}
		r.access(w, fences, true, 0)
	}
	return lease, lost
}

// hold uses the guarded resource while the lease lasts, and reports whether it was
// lost.
func (r *routine) hold(w Want, a attempts, lease Lease) (lost bool) {
	p := r.part
	if p.isDraining() {
		return false
	}
	for d := upTo(r.random, cmp.Or(w.Hold, p.script.Hold)); ; d = 0 {
		held := history.Now()
		if lease.Err() != nil {
			return true
		}
		r.access(w, fencesOf(w, lease), false, held)
		if r.chance(p.script.Overdue) {
			d = w.TTL + w.TTL/4
		}
		if r.chance(p.script.Extending) && !r.extend(w, a, lease) {
			return true
		}
		select {
		case <-time.After(d):
		case <-lease.Done():
		case <-p.draining:
		}
		held = history.Now()
		if lease.Err() != nil {
			return true
		}
		r.access(w, fencesOf(w, lease), true, held)
		if lease.Err() != nil {
			return true
		}
		if !r.chance(20) {
			return false
		}
	}
}

// again acquires the lock again, releases one of the two leases, and continues with the other.
func (r *routine) again(w Want, a attempts, outer held) (rest Lease, lost bool) {
	inner, err := outer.acquireAgain()
	if err != nil {
		r.part.say.line(FailureLine, Failure{"acquire again", err.Error()})
		return outer, outer.Err() != nil
	}
	first, rest := inner, Lease(outer)
	if r.chance(50) {
		first, rest = rest, first
	}
	if err := first.Release(context.Background()); err != nil {
		r.part.say.line(FailureLine, Failure{"release", err.Error()})
	}
	return rest, r.hold(w, a, rest)
}

func (r *routine) extend(w Want, a attempts, lease Lease) bool {
	ctx, cancel := context.WithTimeout(context.Background(), w.TTL)
	defer cancel()
	if err := lease.Extend(ctx, w.TTL/2+upTo(r.random, w.TTL)); err != nil {
		r.part.say.line(FailureLine, Failure{"extend", err.Error()})
		return lease.Err() == nil
	}
	r.part.say.line(ExtendLine, struct{}{})
	a.extended(lease.Deadline())
	return true
}

// access reads or writes the guarded resource of each lock, as far as the holder may. The lease was held at
// some time after held; 0: it is known to be over.
func (r *routine) access(w Want, fences map[string]uint64, write bool, held int64) {
	if w.Share == Permits || w.Share == Owned || w.Share == Reading && write {
		return
	}
	for _, name := range w.Names() {
		r.accessOne(name, fences[name], write, held)
	}
}

func (r *routine) accessOne(name string, fence uint64, write bool, held int64) {
	p := r.part
	x := Access{ID: p.accesses.Add(1), Process: pid, Goroutine: r.number, Name: name, Fence: fence, Write: write, Held: held}
	if write {
		x.Value = uint64(pid)<<32 | x.ID
	}
	x.Call = history.Now()
	if err := r.resource.access(&x); err != nil {
		p.say.line(FailureLine, Failure{"resource", err.Error()})
		return
	}
	x.Return = history.Now()
	p.say.line(AccessLine, x)
}

// attempts records one attempt to get locks; several locks have one record each.
type attempts []*history.Attempt

// ask begins an attempt.
func (r *routine) ask(w Want) attempts {
	var all attempts
	for _, name := range w.Names() {
		a := r.part.record.Ask(r.number, name)
		switch w.Share {
		case Reading:
			a.Share(1)
		case Permits:
			a.Share(w.Take)
		case Owned:
			a.Share(w.Owner)
		case Joining, Meeting:
			a.Share(1)
		}
		all = append(all, a)
	}
	return all
}

func (all attempts) gaveUp() {
	for _, a := range all {
		a.GaveUp()
	}
}

func (all attempts) granted(w Want, lease Lease) {
	fences, deadline := fencesOf(w, lease), lease.Deadline()
	for i, name := range w.Names() {
		if !w.adopted {
			all[i].Since(deadline.Add(-(w.TTL - w.TTL/100 - 2*time.Millisecond)))
		}
		all[i].Granted(fences[name], deadline)
	}
}

func (all attempts) extended(deadline time.Time) {
	for _, a := range all {
		a.Extended(deadline)
	}
}

func (all attempts) released(deadline time.Time) {
	for _, a := range all {
		a.Released(deadline)
	}
}

// fencesOf returns the fences of a lease, by the names of its locks.
func fencesOf(w Want, lease Lease) map[string]uint64 {
	if h, ok := lease.(held); ok && w.With != nil {
		return h.Fences()
	}
	return map[string]uint64{w.Name: lease.Fence()}
}

var pid = os.Getpid()

// resource is a connection to the guarded resource. A request is an Access; the answer is the same with OK and,
// for a read, Value.
type resource struct {
	socket string
	conn   net.Conn
	in     *bufio.Reader
}

func (r *resource) access(x *Access) error {
	if r.conn == nil {
		conn, err := net.Dial("unix", r.socket)
		if err != nil {
			return err
		}
		r.conn, r.in = conn, bufio.NewReader(conn)
	}
	request, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if _, err := r.conn.Write(append(request, '\n')); err != nil {
		return err
	}
	line, err := r.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, x)
}

func (r *resource) close() {
	if r.conn != nil {
		r.conn.Close()
	}
}
