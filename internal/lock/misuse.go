package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// misused is the error of a script that found a key of the wrong kind. It says what the key holds.
type misused struct {
	error
	key, queue string // of the lock
	isRight    bool   // the lock's own key is of the right kind, so the queue's is not
	holds      string // what the lock's key holds instead; "" if that is no Holdfast lock
}

func (e misused) Error() string {
	switch {
	case e.isRight:
		return fmt.Sprintf("%v; the key %q is of the right kind, so its queue %q is not", e.error, e.key, e.queue)
	case e.holds == "":
		return fmt.Sprintf("%v; the key %q holds something that is not a Holdfast lock", e.error, e.key)
	}
	return fmt.Sprintf("%v; the key %q holds %s", e.error, e.key, e.holds)
}

func (e misused) Unwrap() error { return e.error }

// Advice returns the next step.
func (e misused) Advice() string {
	switch {
	case e.isRight:
		return " (choose another name)"
	case e.holds == "":
		return " (choose another name or prefix)" // not "delete it": others may be using it
	}
	return " (use the name for that kind of lock, or choose another name)"
}

// explain adds to an error about a key of the wrong kind what the key holds, if the server says so. The key may hold a lock of another kind
// that is in use, so the caller should not just delete it. If there are several locks, the error describes the first one of the wrong kind.
func (k *Keyspace) explain(ctx context.Context, locks []*Lock, err error) {
	var se *exec.Failure
	if !errors.As(err, &se) || se.Kind != exec.ErrWrongType || se.Code() == "BADFENCE" || ctx.Err() != nil {
		return
	}
	found := misused{error: se.Err}
	for _, l := range locks {
		if !found.isRight && found.key != "" {
			break
		}
		a, askErr := exec.Try(ctx, k.Server, k.Config.CommandTimeout, func(ctx context.Context) (Answer[codec.StatusReply], error) {
			key := codec.Lock{Keys: codec.Keys{Lock: l.Keys.Lock}, Flags: l.Flags()} // without the queue, which may be what is wrong
			return AskOnce(ctx, Request{Op: "inspect", Lock: l}, &codec.Status{Lock: key, Cursor: "0", Holds: 1})
		})
		if askErr != nil {
			return
		}
		what := a.Reply.Kind
		found.key, found.queue, found.holds = l.Keys.Lock, l.Keys.Queue, ""
		found.isRight = what == l.Set.Kind.Form || what == codec.HoldsNothing
		if k := kind.ByForm(what); k != nil {
			found.holds = k.What
		}
	}
	if found.key != "" {
		se.Err = found
	}
}
