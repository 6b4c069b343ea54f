package engine

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Holder is who holds a lock. Owner, Host and Meta are what its program wrote, or
// whoever can write the key: escape them before you show them.
type Holder struct {
	Name  string // the lock's
	Form  string // of the lock: see Lock.Form
	Key   string // the lock's key
	Owner string // Owner or Config.Owner; "" when Foreign
	Host  string
	PID   int
	Meta  map[string]string
	// Fence is that of the grant by the server. Goroutines of the holder's process
	// that passed the lock on among themselves have higher ones. Of a Quorum it is one
	// node's count, and not the lease's Token.
	Fence   uint64
	Since   time.Time     // by the server's clock
	TTL     time.Duration // what is left; negative when the key has no expiry
	Waiters int           // processes in the queue; not this one, if all its waiters have given up
	Foreign bool          // another program holds it: only Key, TTL and Waiters are known
	// Weight is how many permits of a semaphore it has; of a read-write lock, 1 is a
	// reader and more a writer. 0 for a mutex.
	Weight int
}

// Holder says who holds the lock, one of them if there are several: ErrNotHeld if nobody
// does. It changes nothing.
func (l *target) Holder(ctx context.Context) (Holder, error) {
	if l.set.kind.isShared() {
		return l.someHolder(ctx)
	}
	if err := l.ready(ctx); err != nil {
		return Holder{}, err
	}
	l.awaitDepartures(ctx)
	a, _, err := l.c.call(ctx, request{
		op: "inspect", lock: l, script: script.Holder,
		args: []string{l.flags(""), ""},
	})
	if err != nil {
		return Holder{}, err
	}
	switch a.Word {
	case "free":
		return Holder{}, ErrNotHeld
	case "held":
		return l.parseHolder(&a.Reply)
	}
	return Holder{}, l.malformed("inspect")
}

// Holders says who holds the lock: nobody, or, of a mutex, one; of a semaphore or a
// read-write lock, all that do, in no order. It changes nothing. Many holders are asked for some hundreds at a time, so that the server has time
// for others: of those that come or go meanwhile, some are told and some are not.
func (l *target) Holders(ctx context.Context) ([]Holder, error) {
	if !l.set.kind.isShared() {
		h, err := l.Holder(ctx)
		if errors.Is(err, ErrNotHeld) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []Holder{h}, nil
	}
	return l.allHolders(ctx)
}

// awaitDepartures has those of this client left the queue that have given up: nobody is to be counted as
// waiting whose Acquire has returned.
func (l *target) awaitDepartures(ctx context.Context) {
	l.c.departing.wait(ctx, l.keys.Queue, max(500*time.Millisecond, 8*l.c.server.RTT.Mean()))
}

// IsHeld reports whether anybody holds the lock.
func (l *target) IsHeld(ctx context.Context) (bool, error) {
	_, err := l.Holder(ctx)
	if errors.Is(err, ErrNotHeld) {
		return false, nil
	}
	return err == nil, err
}

// parseHolder reads what follows in a "held" reply.
func (l *target) parseHolder(r *wire.Reply) (Holder, error) {
	_, h, err := l.parseHolding(r)
	return h, err
}

// parseHolding is parseHolder that also tells the holder's token; "" of another program.
func (l *target) parseHolding(r *wire.Reply) (token string, h Holder, err error) {
	var pttl, waiters int64
	if err := r.Ints(&pttl, &waiters); err != nil {
		return "", Holder{}, l.malformed("inspect")
	}
	v, _ := wire.ParseValue(r.Rest())
	return v.Token, l.holder(duration(pttl), int(waiters), r.Rest()), nil
}

// holder makes a Holder of a lock's value.
func (l *target) holder(ttl time.Duration, waiters int, value string) Holder {
	h := Holder{Name: l.name, Form: l.set.kind.form, Key: l.keys.Lock, TTL: ttl, Waiters: waiters}
	v, ours := wire.ParseValue(value)
	if !ours {
		h.Foreign = true
		return h
	}
	h.Owner, h.Host, h.PID, h.Meta = v.Info.Owner, v.Info.Host, v.Info.PID, maps.Clone(v.Info.Meta)
	h.Fence, h.Since = v.Fence, time.UnixMilli(v.Granted)
	return h
}

// holdersPerReply is how many of a lock's holders a script returns at a time: few enough that
// nobody else waits for long.
const holdersPerReply = 500

// someHolder is Holder for a lock that can have several: it returns the first that it finds.
func (l *target) someHolder(ctx context.Context) (Holder, error) {
	if err := l.ready(ctx); err != nil {
		return Holder{}, err
	}
	l.awaitDepartures(ctx)
	cursor := "0"
	for count := 10; ; count = min(5*count, holdersPerReply) {
		some, next, err := l.holdersFrom(ctx, cursor, count)
		switch {
		case err != nil:
			return Holder{}, err
		case len(some) > 0:
			return some[0].Holder, nil
		case next == "0":
			return Holder{}, ErrNotHeld
		}
		cursor = next
	}
}

// allHolders is Holders for a lock that can have several.
func (l *target) allHolders(ctx context.Context) ([]Holder, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	l.awaitDepartures(ctx)
	var all []Holder
	known := map[string]bool{} // by token: the server may return a holder twice
	for cursor := "0"; ; {
		some, next, err := l.holdersFrom(ctx, cursor, holdersPerReply)
		if err != nil {
			return nil, err
		}
		for _, h := range some {
			if !known[h.token] {
				known[h.token] = true
				all = append(all, h.Holder)
			}
		}
		if next == "0" {
			return all, nil
		}
		cursor = next
	}
}

// sharer is one of several holders.
type sharer struct {
	Holder
	token string
}

// holdersFrom asks for about count holders, from a cursor on. next is the cursor after them, "0" if
// they are the last.
func (l *target) holdersFrom(ctx context.Context, cursor string, count int) (some []sharer, next string, err error) {
	a, _, err := l.c.call(ctx, request{
		op: "inspect", lock: l, script: script.ShareHolders,
		args: []string{l.flags(""), "", cursor, strconv.Itoa(count), l.set.kind.name},
	})
	if err != nil {
		return nil, "", err
	}
	var waiters, used, limit int64
	head, lines, _ := strings.Cut(a.Rest(), "\n")
	fields := wire.Fields(head)
	if a.Word != "holders" || fields.Ints(&waiters, &used, &limit) != nil || fields.Rest() == "" {
		return nil, "", l.malformed("inspect")
	}
	next = fields.Rest()
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			continue
		}
		var pttl, weight int64
		fields := wire.Fields(line)
		if fields.Ints(&pttl, &weight) != nil {
			return nil, "", l.malformed("inspect")
		}
		value := fields.Rest()
		h := l.holder(duration(pttl), int(waiters), value)
		h.Weight = int(weight)
		token, _, _ := strings.Cut(strings.TrimPrefix(value, valueFormat), ":")
		some = append(some, sharer{h, token})
	}
	return some, next, nil
}
