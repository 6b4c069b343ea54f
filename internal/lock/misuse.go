package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	if !errors.As(err, &se) || se.Kind != exec.ErrWrongType || ctx.Err() != nil {
		return
	}
	if errors.As(err, new(badCounter)) {
		return // the error names the counter already
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

// badCounter is the error of a script that found the fence counter unusable.
type badCounter struct {
	error
	keys []string // of the counter; with several locks in a Cluster, of all counters that it can be
}

// nameCounters adds the keys of the fence counters to a BADFENCE error. It sends nothing.
func nameCounters(err error, counters func() []string) {
	var f *exec.Failure
	if errors.As(err, &f) && f.Code() == "BADFENCE" && !errors.As(f.Err, new(badCounter)) {
		f.Err = badCounter{f.Err, counters()}
	}
}

// counters returns the quoted keys of the fence counters that the request's locks use.
func (rq Request) counters() (all []string) {
	for _, l := range rq.locks() {
		if key := strconv.Quote(l.FenceKey()); !slices.Contains(all, key) {
			all = append(all, key)
		}
	}
	return all
}

// NodeFailure wraps the error of a request to a node in a Failure.
func (k *Keyspace) NodeFailure(op, name string, err error) *exec.Failure {
	f := k.Server.Failure(op, name, err)
	nameCounters(f, func() []string { return []string{strconv.Quote(k.Space.Fence)} })
	return f
}

// saysAll reports whether the script's own text names the counter and the next step, as it does if the counter leads the clock.
func (e badCounter) saysAll() bool { return strings.Contains(e.error.Error(), "delete it") }

func (e badCounter) Error() string {
	if e.saysAll() {
		return e.error.Error()
	}
	return fmt.Sprintf("%v; its key is %s", e.error, strings.Join(e.keys, " or "))
}

func (e badCounter) Unwrap() error { return e.error }

// Advice returns the next step. All names under a prefix share the counter, so another name does not help.
func (e badCounter) Advice() string {
	if e.saysAll() {
		return ""
	}
	return " (if no other program uses that key, delete it, and fences follow the server's clock again; if one does, choose another prefix)"
}
