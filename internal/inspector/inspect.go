package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Inspector finds locks of any kind, reports who holds and awaits them, and breaks and revokes holders.
type Inspector struct {
	of *lock.Keyspace
	as map[string]*kind.Settings // for the locks of each form
	by string                    // the operator, for the records of breaks and revocations
}

// Init is inspect.Inspector.Admit or, with force, ForceAdmit.
func (in *Inspector) Init(ctx context.Context, force bool) error { return in.of.Init(ctx, force) }

// New returns an inspector of the locks in a keyspace, which breaks them in that name.
func New(k *lock.Keyspace, by string) *Inspector {
	in := &Inspector{of: k, as: map[string]*kind.Settings{}, by: by}
	for _, one := range kind.All {
		own := k.Defaults.Copy()
		own.Kind = one
		in.as[one.Form] = own
	}
	return in
}

// Found is a lock of any kind that was found.
type Found struct {
	Name string // or its exact key, if it has no name
	keys keys.Set
}

func (f *Found) Key() string { return f.keys.Lock }

// target returns the lock, as one of the kind with that form.
func (in *Inspector) target(f Found, form string) *lock.Lock {
	set, ok := in.as[form]
	if !ok {
		set = in.as[codec.HoldsMutex]
	}
	l := &lock.Lock{Of: in.of, Keys: f.keys.For(cmp.Or(set.Kind.Name, "q")), Set: set}
	if l.Name() != f.Name { // the target stands for all locks of a pattern
		l.Set = set.Copy()
		l.Set.Called = f.Name
	}
	return l
}

// These bound what a request asks about one of many locks, so that no lock delays the server's other clients for long.
const (
	holdersAtOnce = 100
	waitersAtOnce = 100
)

// Lookup calls yield with the status of the lock of that name, then with that of the lock with that exact key, in use or not, until yield
// returns false. It leaves out a lock whose name or key is invalid, and an exact key that the user may not see. The status of a
// lock that is not in use has no Form. An error comes last.
func (in *Inspector) Lookup(ctx context.Context, name string, yield func(lock.Status, error) bool) {
	named, noName := in.of.Space.Name(name)
	if noName == nil {
		if s, err := in.get(ctx, Found{name, named}); !yield(s, err) || err != nil {
			return
		}
	}
	exact, noKey := in.of.Space.Exact(name)
	switch {
	case noKey != nil && noName != nil:
		yield(lock.Status{}, fmt.Errorf("%w: lock %.64q: %w", lock.ErrInvalid, name, noKey))
	case noKey == nil:
		s, err := in.get(ctx, Found{name, exact})
		if noName == nil && errors.Is(err, exec.ErrPermission) {
			return // the user may be allowed to see this prefix, but not that key
		}
		yield(s, err)
	}
}

func (in *Inspector) get(ctx context.Context, f Found) (lock.Status, error) {
	l := in.target(f, codec.HoldsMutex)
	if err := l.Ready(ctx); err != nil {
		return lock.Status{}, err
	}
	l.AwaitDepartures(ctx)
	return in.ask(ctx, f, lock.MaxWaiters)
}

// GetAll returns the status of each of these locks, with the first 100 waiters, or the error for that lock. The locks are on one server.
// The last result is an error if the server could not be asked.
func (in *Inspector) GetAll(ctx context.Context, all []Found) ([]lock.Status, []error, error) {
	if len(all) == 0 {
		return nil, nil, nil
	}
	if err := in.target(all[0], codec.HoldsMutex).Ready(ctx); err != nil {
		return nil, nil, err
	}
	found, errs := make([]lock.Status, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for i, f := range all {
		asking.Go(func() { found[i], errs[i] = in.ask(ctx, f, waitersAtOnce) })
	}
	asking.Wait()
	for i, err := range errs {
		var refused *exec.Failure
		switch {
		case err == nil:
		case errors.As(err, &refused) && !exec.Temporary(refused.Kind) && refused.Kind != exec.ErrClientClosed: // only that lock's
			found[i] = lock.Status{Name: all[i].Name, Key: all[i].Key()}
		default:
			return nil, nil, err
		}
	}
	return found, errs, nil
}

// ask asks for the status of a lock of unknown kind, with that many waiters. If it has more holders than a reply has room for, ask asks
// again, now that the kind is known.
func (in *Inspector) ask(ctx context.Context, f Found, waiters int) (lock.Status, error) {
	l := in.target(f, codec.HoldsMutex)
	q := codec.Status{
		Lock: codec.Lock{Keys: codec.Keys{Lock: f.keys.Lock, Queue: f.keys.Queue}, Flags: l.Flags()},
		Kind: codec.HoldsMutex, Cursor: "0", Holds: holdersAtOnce, Waiters: waiters,
	}
	others := kind.NamedKinds
	if f.Name == f.Key() {
		others = kind.ExactKinds
	}
	for _, k := range others {
		q.Others = append(q.Others, codec.Queue{Kind: k.Form, Key: f.keys.For(k.Name).Queue})
	}
	a, _, err := lock.Ask(ctx, lock.Request{Op: "inspect", Lock: l, Unexplained: true}, &q)
	if err != nil {
		return lock.Status{}, err
	}
	r := &a.Reply
	l = in.target(f, r.Kind)
	if !r.IsLast() {
		return l.Status(ctx)
	}
	s := lock.Status{Name: f.Name, Key: f.Key()}
	l.Describe(&s, r)
	if r.Kind == codec.HoldsNothing {
		s.Form = ""
	}
	known := map[string]bool{}
	for _, hold := range r.Holds {
		if !l.Set.Kind.IsShared || !known[hold.Token] {
			known[hold.Token] = true
			h := l.HolderOf(&hold)
			s.Holders, s.Fence = append(s.Holders, h), max(s.Fence, h.Fence)
		}
	}
	return s, nil
}
