package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// usedAs describes the locks that a key may hold in place of another, by whatis.lua's names for
// them.
var usedAs = map[string]string{
	codec.HoldsMutex: "a lock with one holder at a time, such as one of Mutex, Multi, Once or Election",
	redisson.name:    "a lock in the format of Redisson's RLock",
	reader.name:      "a read-write lock",
	semaphore.name:   "a semaphore",
	owned.name:       "an owner's lock (OwnerMutex)",
	latch.name:       "a latch",
	barrier.name:     "a barrier",
}

// misused is the error of a script that found a key of the wrong kind, with what the key holds.
type misused struct {
	error
	key  string
	what string // a key of usedAs; "" if the key is not ours; "none" if the lock's own key is of the right kind
}

func (e misused) Error() string {
	switch {
	case e.what == "none":
		return fmt.Sprintf("%v; the key %q is of the right kind, so its queue or the fence counter is not", e.error, e.key)
	case e.what == "":
		return fmt.Sprintf("%v; the key %q holds something that is not a Holdfast lock", e.error, e.key)
	}
	return fmt.Sprintf("%v; the key %q holds %s", e.error, e.key, usedAs[e.what])
}

func (e misused) Unwrap() error { return e.error }

// Advice returns the next step.
func (e misused) Advice() string {
	if usedAs[e.what] == "" {
		return " (choose another name or prefix)" // not "delete it": others may be using it
	}
	return " (use the name for that kind of lock, or choose another name)"
}

// explain adds to an error about a key of the wrong kind what the key holds, if the server says so.
// The key may hold a lock of another kind that is in use, so the caller should not just delete it.
// If there are several locks, the error describes the first one that is of the wrong kind.
func (c *Client) explain(ctx context.Context, locks []*target, err error) {
	var se *exec.Failure
	if !errors.As(err, &se) || se.Kind != exec.ErrWrongType || ctx.Err() != nil {
		return
	}
	found := misused{error: se.Err}
	for _, l := range locks {
		if found.what != "none" && found.key != "" {
			break
		}
		a, askErr := exec.Try(ctx, c.server, c.cfg.CommandTimeout, func(ctx context.Context) (answer[codec.WhatIsReply], error) {
			return askOnce(ctx, c, request{op: "inspect", lock: l}, &codec.WhatIs{Lock: l.ref()})
		})
		what := a.reply.What
		if askErr != nil || what == codec.HoldsUnknown {
			return
		}
		found.key, found.what = l.keys.Lock, ""
		switch {
		case what == l.set.kind.form, what == codec.HoldsNothing:
			found.what = "none"
		case usedAs[what] != "":
			found.what = what
		}
	}
	if found.key != "" {
		se.Err = found
	}
}
