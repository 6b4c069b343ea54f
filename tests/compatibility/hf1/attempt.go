package hf1

import (
	"strings"
	"time"
)

// Attempt is one token's way to a lock, and the lease that it gets.
type Attempt struct {
	Lock  *Lock
	Token string
	Fence int64 // of its grant
	// Claim is the time in ms for which the attempt is to be handed the lock: the TTL, unless a test changes it.
	Claim int64
	TTL   int64 // ms
	Place int64 // the score of an earlier entry whose place it takes, or 0

	granted int64 // NOW of its grant
}

// New returns an attempt with a new token.
func (l *Lock) New(ttl time.Duration) *Attempt {
	return &Attempt{Lock: l, Token: NewToken(), Claim: ttl.Milliseconds(), TTL: ttl.Milliseconds()}
}

// Try sends an acquire that does not wait.
func (a *Attempt) Try() Reply {
	a.Lock.c.tb.Helper()
	return a.acquire("t", 1)
}

// TryFor is Try with a block of fences.
func (a *Attempt) TryFor(fences int) Reply {
	a.Lock.c.tb.Helper()
	return a.acquire("t", fences)
}

// Queue sends an acquire that waits, after subscribing.
func (a *Attempt) Queue() Reply {
	a.Lock.c.tb.Helper()
	a.Lock.Listen()
	return a.acquire("w", 1)
}

// QueueDeaf is Queue of a process that hears nothing.
func (a *Attempt) QueueDeaf() Reply {
	a.Lock.c.tb.Helper()
	return a.acquire("w", 1)
}

// Look sends a waiter's check.
func (a *Attempt) Look() Reply {
	a.Lock.c.tb.Helper()
	return a.acquire("l", 1)
}

func (a *Attempt) acquire(mode string, fences int) Reply {
	l := a.Lock
	l.c.tb.Helper()
	args := []any{a.Token, a.TTL, l.c.notAfter(), fences, l.c.Info.String()}
	if l.kind != "" {
		args = append(args, l.kind, l.limit, l.weight)
	}
	if mode != "t" {
		var place any = ""
		if a.Place != 0 {
			place = a.Place
		}
		args = append(args, a.Claim, l.channel(l.c.id), place)
	}
	r := l.send(l.script("acquire"), l.c.marked(l.keys), mode, args...)
	if r.Word == "granted" {
		a.Fence, a.granted = r.Int("FENCE"), r.Now
	}
	return r
}

// member is its entry of the queue.
func (a *Attempt) member() string {
	l := a.Lock
	fields := []string{a.Token, number64(a.Claim), l.channel(l.c.id)}
	if l.kind != "" {
		fields = append(fields, l.weight)
	}
	return strings.Join(append(fields, l.c.Info.String()), "\n")
}

// Granted waits for the message that hands it the lock.
func (a *Attempt) Granted() Message {
	tb := a.Lock.c.tb
	tb.Helper()
	m := a.Lock.Listen().Grant(a.Lock, a.Token)
	if m.Claim != a.Claim {
		tb.Fatalf("the grant of %s is for %d ms; want %d", a.Lock.Key(), m.Claim, a.Claim)
	}
	a.Fence, a.granted = m.Fence, m.Now
	return m
}

// Handed is Granted, but of an exact key there may be a gap first, after which the attempt looks.
func (a *Attempt) Handed() {
	l := a.Lock
	l.c.tb.Helper()
	m, gap := l.Listen().Handed(l, a.Token)
	if gap {
		time.Sleep(time.Duration(m.Due-m.Now)*time.Microsecond + time.Millisecond)
		a.Look().Want("granted")
		return
	}
	a.Fence, a.granted = m.Fence, m.Now
}

// StandBy waits for the message that tells it when to look.
func (a *Attempt) StandBy() Message {
	a.Lock.c.tb.Helper()
	return a.Lock.Listen().StandBy(a.Token)
}

// Renew renews the lease, without fences.
func (a *Attempt) Renew() Reply {
	l := a.Lock
	l.c.tb.Helper()
	keys, flags := l.keys[:1], ""
	if l.kind != "" {
		keys = []string{l.Key(), l.index()}
	}
	if l.c.o.Quarantine != "" {
		keys = l.c.marked(l.keys)
	}
	if l.c.o.Node {
		flags = "n"
	}
	return l.send(l.script("renew"), keys, flags, a.Token, a.TTL, 0, a.Fence)
}

// RenewFor renews the lease, and reserves fences.
func (a *Attempt) RenewFor(fences int) Reply {
	l := a.Lock
	l.c.tb.Helper()
	return l.send(l.script("renew"), l.c.marked(l.keys), "", a.Token, a.TTL, fences, a.Fence)
}

// Reassert asks for a lock again that Renew found absent.
func (a *Attempt) Reassert() Reply {
	l := a.Lock
	l.c.tb.Helper()
	age := l.c.Now() - a.granted
	return l.send("reassert", l.keys, "", a.Token, a.TTL, l.c.notAfter(), a.Fence, a.Fence, l.c.Info.String(), a.granted, age)
}

// Release gives the lock up, or leaves the queue. A party of a latch or a barrier leaves.
func (a *Attempt) Release() Reply {
	a.Lock.c.tb.Helper()
	return a.release(0, "left")
}

// Bury releases, and leaves a tombstone for as long as an earlier request may arrive.
func (a *Attempt) Bury() Reply {
	a.Lock.c.tb.Helper()
	return a.release(a.Lock.c.notAfter(), "left")
}

// Arrive counts a party of a latch down.
func (a *Attempt) Arrive() Reply {
	a.Lock.c.tb.Helper()
	return a.release(a.Lock.c.notAfter(), "done")
}

func (a *Attempt) release(tombstone int64, how string) Reply {
	l := a.Lock
	l.c.tb.Helper()
	args := []any{a.Token, a.member(), tombstone}
	if l.kind == "latch" || l.kind == "bar" {
		args = append(args, how)
	}
	flags := ""
	if l.c.o.Node {
		flags = "n"
	}
	return l.send(l.script("release"), l.c.marked(l.keys), flags, args...)
}

// Drop gives the lock up by its key alone, unless it has waiters.
func (a *Attempt) Drop() Reply {
	a.Lock.c.tb.Helper()
	return a.Lock.send("drop", a.Lock.keys[:1], "", a.Token)
}

// BecomeReader makes a writer a reader.
func (a *Attempt) BecomeReader() Reply {
	a.Lock.c.tb.Helper()
	return a.weigh(1)
}

// BecomeWriter makes a reader a writer.
func (a *Attempt) BecomeWriter() Reply {
	a.Lock.c.tb.Helper()
	return a.weigh(all)
}

func (a *Attempt) weigh(weight int) Reply {
	l := a.Lock
	l.c.tb.Helper()
	r := l.send("share_weigh", l.c.marked(l.keys), "", a.Token, weight, a.Fence, a.Fence)
	if r.Word == "weighed" {
		a.Fence = r.Int("FENCE")
	}
	return r
}

// Await makes a party of a barrier arrive, or look. number counts its awaits, from 1; phase is the one at which it
// arrives, 0 at first; known is the latest phase that it knows to have tripped, or 0.
func (a *Attempt) Await(number, phase, known int64) Reply {
	l := a.Lock
	l.c.tb.Helper()
	return l.send("barrier_await", l.c.marked(l.keys), "", a.Token, number, phase, l.limit, known)
}

// Withdraw takes an await back.
func (a *Attempt) Withdraw(number int64) Reply {
	l := a.Lock
	l.c.tb.Helper()
	return l.send("barrier_withdraw", l.c.marked(l.keys), "", a.Token, number)
}
