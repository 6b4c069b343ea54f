package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Inspector says who holds locks and who waits for them, whatever their kinds. It changes nothing.
type Inspector struct {
	c  *Client
	as map[string]*kind.Settings // of the locks of each form
	by string                    // who breaks locks, for their record
}

// Init is Admit of package inspect; with force it is ForceAdmit.
func (in *Inspector) Init(ctx context.Context, force bool) error { return in.c.Init(ctx, force) }

// NewInspector returns an inspector of the client's locks.
func (c *Client) NewInspector() *Inspector {
	in := &Inspector{c: c, as: map[string]*kind.Settings{}, by: c.cfg.Owner}
	for _, k := range kind.All {
		own := c.defaults.Copy()
		own.Kind = k
		in.as[k.Form] = own
	}
	return in
}

// ActAs sets the name under which locks are broken, instead of the client's owner.
func (in *Inspector) ActAs(owner string) { in.by = owner }

// Found is a lock that was found, of any kind.
type Found struct {
	Name string // its exact key if it has no name
	keys keys.Set
}

// Key returns the lock's key.
func (f *Found) Key() string { return f.keys.Lock }

// target returns the lock as one of that form.
func (in *Inspector) target(f Found, form string) *Target {
	set, ok := in.as[form]
	if !ok {
		set = in.as[codec.HoldsMutex]
	}
	l := &Target{c: in.c, keys: f.keys.For(cmp.Or(set.Kind.Name, "q")), set: set}
	if l.name() != f.Name { // it stands for all locks of a pattern
		l.set = set.Copy()
		l.set.Called = f.Name
	}
	return l
}

// How much a request asks for about one lock of many, so that none keeps the server's other clients waiting for long.
const (
	holdersAtOnce = 100
	waitersAtOnce = 100
)

// Get returns the status of the lock of that name or, if nothing is known of such a lock, of the lock with that exact key.
// Its Form is "" if nothing is known of either.
func (in *Inspector) Get(ctx context.Context, name string) (found Status, err error) {
	in.Lookup(ctx, name, func(s Status, failed error) bool {
		if err = failed; err == nil && (found.Name == "" || s.Form != "") {
			found = s
		}
		return err == nil && s.Form == ""
	})
	if err != nil {
		return Status{}, err
	}
	return found, nil
}

// Lookup calls yield with the status of the lock of that name, and then with that of the lock with that exact key, whether or
// not they are in use, until yield returns false. It leaves out a lock that cannot be, and one with an exact key that the user
// may not see. An error is the last.
func (in *Inspector) Lookup(ctx context.Context, name string, yield func(Status, error) bool) {
	named, noName := in.c.space.Name(name)
	if noName == nil {
		if s, err := in.get(ctx, Found{name, named}); !yield(s, err) || err != nil {
			return
		}
	}
	exact, noKey := in.c.space.Exact(name)
	switch {
	case noKey != nil && noName != nil:
		yield(Status{}, fmt.Errorf("%w: lock %.64q: %w", ErrInvalid, name, noKey))
	case noKey == nil:
		s, err := in.get(ctx, Found{name, exact})
		if noName == nil && errors.Is(err, exec.ErrPermission) {
			return // the user may be allowed to see this prefix, but not that key
		}
		yield(s, err)
	}
}

func (in *Inspector) get(ctx context.Context, f Found) (Status, error) {
	l := in.target(f, codec.HoldsMutex)
	if err := l.ready(ctx); err != nil {
		return Status{}, err
	}
	l.awaitDepartures(ctx)
	q := in.question(f, maxWaiters)
	a, _, err := ask(ctx, in.c, request{op: "inspect", lock: l, unexplained: true}, &q)
	if err != nil {
		return Status{}, err
	}
	return in.complete(ctx, f, &a.reply)
}

// GetAll returns the status of each of these locks, which are on one server, or why it was refused. Of each lock it returns
// the first 100 waiters. An error says that the server could not be asked.
func (in *Inspector) GetAll(ctx context.Context, all []Found) ([]Status, []error, error) {
	if len(all) == 0 {
		return nil, nil, nil
	}
	if err := in.target(all[0], codec.HoldsMutex).ready(ctx); err != nil {
		return nil, nil, err
	}
	requests, questions := make([]exec.Request, len(all)), make([]codec.Status, len(all))
	for i, f := range all {
		questions[i] = in.question(f, waitersAtOnce)
		requests[i] = in.c.addressed(request{op: "inspect", lock: in.target(f, codec.HoldsMutex)}, questions[i].Call())
	}
	answers, err := in.c.server.DoTogether(ctx, "inspect", all[0].Name, requests)
	if err != nil {
		return nil, nil, err
	}
	found, errs := make([]Status, len(all)), make([]error, len(all))
	for i, a := range answers {
		found[i] = Status{Name: all[i].Name, Key: all[i].Key()}
		if errs[i] = a.Err; a.Err != nil {
			continue
		}
		reply, err := questions[i].Parse(a.Text)
		if err != nil {
			errs[i] = in.target(all[i], codec.HoldsMutex).malformed("inspect")
			continue
		}
		if s, err := in.complete(ctx, all[i], &reply); err == nil {
			found[i] = s
		} else {
			errs[i] = err
		}
	}
	return found, errs, nil
}

// question asks for the status of a lock of any kind, with that many waiters.
func (in *Inspector) question(f Found, waiters int) codec.Status {
	first, others := f.kinds()
	l := in.target(f, codec.HoldsMutex)
	q := codec.Status{
		Lock: codec.Lock{Keys: codec.Keys{Lock: f.keys.Lock, Queue: f.keys.Queue}, Flags: l.flags()},
		Kind: first.Form, Cursor: "0", Holds: holdersAtOnce, Waiters: waiters,
	}
	for _, k := range others {
		q.Others = append(q.Others, codec.Queue{Kind: k.Form, Key: f.keys.For(k.Name).Queue})
	}
	return q
}

// kinds are the kinds that the lock can be of, as far as somebody may wait for it.
func (f *Found) kinds() (first *kind.Kind, others []*kind.Kind) {
	if f.Name == f.Key() {
		return &kind.Mutex, kind.ExactKinds
	}
	return &kind.Mutex, kind.NamedKinds
}

// complete returns the status that a reply to a question tells. If there are more holders, it asks for the status anew, now
// that the kind is known.
func (in *Inspector) complete(ctx context.Context, f Found, r *codec.StatusReply) (Status, error) {
	l := in.target(f, r.Kind)
	if !r.IsLast() {
		return l.Status(ctx)
	}
	s := Status{Name: f.Name, Key: f.Key()}
	l.describe(&s, r)
	if r.Kind == codec.HoldsNothing {
		s.Form = ""
	}
	known := map[string]bool{}
	for _, hold := range r.Holds {
		if !l.set.Kind.IsShared() || !known[hold.Token] {
			known[hold.Token] = true
			h := l.sharer(&hold)
			s.Holders, s.Fence = append(s.Holders, h), max(s.Fence, h.Fence)
		}
	}
	return s, nil
}

// IsInUse reports whether somebody holds the lock, waits for it or counts on it: a latch that is not open, or a semaphore
// whose permits were set.
func (s *Status) IsInUse() bool {
	switch {
	case len(s.Holders) > 0, s.Waiting > 0:
		return true
	case s.Form == kind.Latch.Form:
		return s.Count > 0
	case s.Form == kind.Semaphore.Form:
		return s.Limit > 0
	}
	return false
}
