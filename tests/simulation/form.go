package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/options"
)

type form string

// The forms.
const (
	mutual    form = "mutex"
	readWrite form = "rwmutex"
	counted   form = "semaphore"
	owned     form = "owned"
	elected   form = "election"
	onceOnly  form = "once"
	redisson  form = "redisson" // a mutex that Redisson's clients use, too
	latched   form = "latch"
	gathered  form = "barrier"
	carried   form = "carried" // a mutex that goes from one process to another
)

// forms are all of them.
var forms = []form{mutual, readWrite, counted, owned, elected, onceOnly, redisson, latched, gathered, agreed, carried}

// exclusive reports whether the lock is a Mutex.
func (f form) exclusive() bool {
	return f == mutual || f == carried || f == elected || f == onceOnly || f == redisson || f == agreed
}

// permits is a semaphore's number of permits; everyone exceeds the number of goroutines of a world.
const (
	permits  = 4
	everyone = 1000
)

// drawForms decides which names have another form than the mutex, and what each goroutine wants of them. It has
// random sources of its own, so that the rest of the world stays as it is.
func (p *plan) drawForms(o spec) {
	for i := range p.names {
		n := &p.names[i]
		r := random(p.seed, "form", i)
		n.form = [...]form{mutual, mutual, mutual, readWrite, counted, owned, elected, onceOnly, latched, gathered}[r.IntN(10)]
		switch {
		case o.form == redisson:
			n.form, n.key, n.foreign = redisson, "shared:"+n.name, chance(r, 60)
		case o.form != "":
			n.form, n.key, n.foreign = o.form, "", false
		case n.key != "":
			n.form = [...]form{mutual, redisson}[r.IntN(2)] // other programs know no other form
		}
		if n.form == mutual && o.form == "" && chance(random(p.seed, "carried", i), 30) {
			n.form = carried
		}
		if n.form.gathers() {
			n.parties = 2 + r.IntN(3)
		}
		for j, process := range p.processes {
			common := n.form.draw(r, j)
			for k := range process.workers {
				share := common
				if chance(r, 40) {
					share = n.form.draw(r, j)
				}
				want := &process.workers[k].wants[i]
				want.share = share
				if n.form.gathers() {
					want.poll = 0 // nobody polls there
					if chance(r, 85) {
						// Every waiter looks whenever a party's lease may have ended.
						want.ttl = max(want.ttl, 10*time.Second)
					}
				}
			}
		}
	}
}

// drawSeveral decides which names are also acquired as one lock, in every third world with enough Mutexes, or
// if all locks have one form.
func (p *plan) drawSeveral(o spec) {
	if !chance(random(p.seed, "several"), 33) && o.form == "" {
		return
	}
	var names []int
	for i, n := range p.names {
		if n.form == mutual && n.key == "" {
			names = append(names, i)
		}
	}
	if len(names) > 1 {
		p.several = names
	}
}

// draw returns how much of a lock a goroutine wants; 0 is all of it. For an owner's lock it returns which owner
// wants it.
func (f form) draw(r *rand.Rand, process int) int {
	switch f {
	case readWrite:
		if chance(r, 60) {
			return 1
		}
	case counted:
		return 1 + r.IntN(permits)
	case owned:
		return 1 + process%3
	case latched, gathered:
		return 1
	}
	return 0
}

// lock returns the lock as a goroutine wants it.
func (n name) lock(c *holdfast.Client, w want) *holdfast.Lock {
	mutex := waitOptions[holdfast.MutexOption](w)
	switch n.form {
	case readWrite:
		rw := c.RWMutex(n.name, waitOptions[holdfast.RWMutexOption](w)...)
		if w.share == 0 {
			return rw.Writer()
		}
		return rw.Reader()
	case counted:
		return c.Semaphore(n.name, permits, waitOptions[holdfast.SemaphoreOption](w)...).Permits(w.share)
	case owned:
		return c.OwnerMutex(n.name, w.owner(), mutex...)
	case redisson:
		return c.RedissonMutex(n.key, mutex...)
	}
	if n.key != "" {
		return c.MutexKey(n.key, mutex...)
	}
	return c.Mutex(n.name, mutex...)
}

// election and job return what goroutines want of those forms.
func (n name) election(c *holdfast.Client, w want) *election.Election {
	return election.New(c.Mutex(n.name, options.For[holdfast.MutexOption](w.queued())...))
}

func (n name) job(c *holdfast.Client, w want) *once.Job {
	return once.New(c, n.name, once.Every(n.window()), waitOptions[once.Option](w)...)
}

// window returns how long a completed run of a job counts.
func (n name) window() time.Duration { return n.every / 2 }

func (w want) owner() string { return "owner-" + strconv.Itoa(w.share) }

// check returns the violations in a name's history.
func (n name) check(events []history.Event) []history.Violation {
	switch n.form {
	case readWrite:
		overlaps := history.Crowding(events, everyone)
		return append(overlaps, history.SharedFences(events, true, func(a, b history.Event) bool { return a.Share != 0 && b.Share != 0 })...)
	case counted:
		return append(history.Crowding(events, permits), history.Twins(events)...)
	case latched, gathered:
		return append(history.Crowding(events, n.parties), history.Twins(events)...)
	case owned:
		overlaps := history.Strangers(events)
		return append(overlaps, history.SharedFences(events, true, func(a, b history.Event) bool { return a.Share == b.Share })...)
	}
	return history.Check(events)
}

// holdOf returns how long the server keeps a lock for the holder with that owner's name, and what that holder
// has of the lock.
func (w *World) holdOf(i int, owner string) (left time.Duration, what string) {
	if form := w.plan.names[i].form; form.exclusive() {
		value, ttl := w.server.value(w.key(i))
		if form == redisson {
			value, ttl = w.server.redissonValue(w.key(i))
		}
		if !strings.Contains(value, strconv.Quote(owner)) {
			return 0, value
		}
		return ttl, value
	}
	hash := w.server.hash(w.key(i))
	for _, value := range hash {
		expiry, rest, _ := strings.Cut(value, ":")
		µs, err := strconv.ParseInt(expiry, 10, 64)
		if err == nil && strings.Contains(rest, strconv.Quote(owner)) {
			left = max(left, time.UnixMicro(µs).Sub(w.server.now()))
		}
	}
	return left, fmt.Sprint(hash)
}
