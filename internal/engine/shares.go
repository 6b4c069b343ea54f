package engine

import (
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// kind is how a lock is kept on the server.
type kind struct {
	name                    string // in the queue's key, and in notifications; "" for a mutex
	many                    bool   // several may hold it
	acquire, release, renew driver.Script
}

var (
	mutex     = kind{"", false, script.Acquire, script.Release, script.Renew}
	redisson  = kind{"redisson", false, script.Acquire, script.Release, script.Renew}
	readWrite = shared("rw")
	semaphore = shared("sem")
	owned     = shared("own")
	latch     = shared("latch")
	barrier   = shared("bar")
)

// shared is a kind of lock that several may hold at once.
func shared(name string) kind {
	return kind{name, true, script.ShareAcquire, script.ShareRelease, script.ShareRenew}
}

// kindNamed returns the kind that notifications call so.
func kindNamed(name string) *kind {
	switch name {
	case redisson.name:
		return &redisson
	case readWrite.name:
		return &readWrite
	case semaphore.name:
		return &semaphore
	case owned.name:
		return &owned
	case barrier.name:
		return &barrier
	}
	return &mutex
}

// everything is the limit where none is to be reached. It is what a writer weighs, and all holders of a read-write lock together: more
// readers than there can be.
const everything = 1_000_000_000

// maxPermits bounds a semaphore, and how many parties a latch has.
const maxPermits = 1_000_000

// maxArrivals bounds a barrier, at which all parties look for themselves whenever it trips.
const maxArrivals = 10_000

// isShared reports whether several may hold the lock.
func (s *settings) isShared() bool { return s.kind.many }

// hasParties reports whether who has a lease of these settings is the party of a latch or a
// barrier.
func (s *settings) hasParties() bool { return s.kind == &latch || s.kind == &barrier }

// reads reports whether leases of these settings are readers'.
func (s *settings) reads() bool { return s.kind == &readWrite && s.weight < everything }

// isExclusive reports whether a holder with these settings is the only one.
func (s *settings) isExclusive() bool {
	return !s.isShared() || s.kind == &readWrite && s.weight == everything
}

// share is what scripts are told of the share of a lock that is wanted.
func (s *settings) share() []string {
	switch {
	case !s.isShared():
		return nil
	case s.kind == &owned && s.maxDepth > 0:
		return []string{s.kind.name, strconv.Itoa(s.maxDepth), s.wish()}
	}
	return []string{s.kind.name, strconv.Itoa(s.limit), s.wish()}
}

// wish is how much of the lock is wanted, and of an owned lock by whom.
func (s *settings) wish() string {
	if s.kind == &owned {
		return strconv.Itoa(s.weight) + "\n" + s.owner
	}
	return strconv.Itoa(s.weight)
}

// page is how many of a lock's holders a script tells of at a time: few enough that nobody else waits for long.
const page = 500

// someHolder is Holder of a lock that several may hold: the first that is come upon.
func (l *Lock) someHolder(ctx context.Context) (Holder, error) {
	if err := l.ready(ctx); err != nil {
		return Holder{}, err
	}
	l.awaitDepartures(ctx)
	cursor := "0"
	for count := 10; ; count = min(5*count, page) {
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

// allHolders is Holders of a lock that several may hold.
func (l *Lock) allHolders(ctx context.Context) ([]Holder, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	l.awaitDepartures(ctx)
	var all []Holder
	known := map[string]bool{} // by token: the server may name one twice
	for cursor := "0"; ; {
		some, next, err := l.holdersFrom(ctx, cursor, page)
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

// holdersFrom asks for about so many holders, from a cursor on, and returns the next one, "0" after the last.
func (l *Lock) holdersFrom(ctx context.Context, cursor string, count int) (some []sharer, next string, err error) {
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
