package engine

import (
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// holdersPerReply is how many of a lock's holders a script returns at a time: few enough that
// nobody else waits for long.
const holdersPerReply = 500

// someHolder is Holder for a lock that can have several: it returns the first that it finds.
func (l *Lock) someHolder(ctx context.Context) (Holder, error) {
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
func (l *Lock) allHolders(ctx context.Context) ([]Holder, error) {
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
