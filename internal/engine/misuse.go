package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/script"
)

// usedAs says as what a key is used that ought to hold another lock.
var usedAs = map[string]string{
	"mutex":        "a lock that one holds at a time, as those of Mutex, Multi, Once and Election",
	redisson.name:  "a lock in the form of Redisson's RLock",
	reader.name:    "a read-write lock",
	semaphore.name: "a semaphore",
	owned.name:     "a lock of owners (Owner with Reentrant)",
	latch.name:     "a latch",
	barrier.name:   "a barrier",
}

// misused is the error of a script that met a key of another kind, and what was found out about that.
type misused struct {
	error
	key  string
	what string // a key of usedAs; "" if it is not ours; "none" if the lock's own key is as it should be
}

func (e misused) Error() string {
	switch {
	case e.what == "none":
		return fmt.Sprintf("%v; the key %q is as it should be, so that its queue or the fence counter is something else", e.error, e.key)
	case e.what == "":
		return fmt.Sprintf("%v; the key %q holds something that is no lock of this library", e.error, e.key)
	}
	return fmt.Sprintf("%v; the key %q holds %s", e.error, e.key, usedAs[e.what])
}

func (e misused) Unwrap() error { return e.error }

// Advice is the next step.
func (e misused) Advice() string {
	if usedAs[e.what] == "" {
		return " (choose another name or prefix)" // not: delete it, since others may hold it
	}
	return " (all programs use a name as one kind: use it as that, or choose another name)"
}

// explain finds out what a lock's key holds, if an error says that it is of another kind: it may be a lock of
// ours, which others hold, and is not to be deleted for that. It completes the error, if it can; of several locks it
// tells of the first that is not as it should be.
func (c *Client) explain(ctx context.Context, locks []*Lock, err error) {
	var se *exec.Failure
	if !errors.As(err, &se) || se.Kind != exec.ErrWrongType || ctx.Err() != nil {
		return
	}
	found := misused{error: se.Err}
	for _, l := range locks {
		if found.what != "none" && found.key != "" {
			break
		}
		a, askErr := exec.Try(ctx, c.server, c.cfg.CommandTimeout, func(ctx context.Context) (exec.Answer, error) {
			return c.send(ctx, request{
				op: "inspect", lock: l, script: script.WhatIs, lockOnly: true,
				args: []string{l.flags(""), ""},
			})
		})
		what := a.Rest()
		if askErr != nil || a.Word != "holds" || what == "unknown" {
			return
		}
		found.key, found.what = l.keys.Lock, ""
		switch {
		case what == l.set.kind.form, what == "nothing":
			found.what = "none"
		case usedAs[what] != "":
			found.what = what
		}
	}
	if found.key != "" {
		se.Err = found
	}
}
