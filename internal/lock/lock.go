// Package lock describes a lock on its server: its keys, its holders, its waiters, and what may go wrong. It sends requests about locks,
// but knows no leases and no waiters of this process.
package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Lock is a lock on one server. It is immutable and free to make: nothing is sent before it is used.
type Lock struct {
	Of   *Keyspace
	Keys keys.Set
	Set  *kind.Settings // shared between locks, so not to be changed
}

// Resolve makes l the lock of that name, with its present settings as the options change them. If the name or an option is bad, every use
// of the lock returns ErrInvalid.
func (l *Lock) Resolve(name string, opts []kind.Option) {
	k, s := l.Of, l.Set
	if len(opts) > 0 {
		s = s.Copy()
		for _, o := range opts {
			o(s)
		}
	}
	place, err := s.Kind.Place(k.Space, name, s)
	if err == nil && len(opts) > 0 {
		err = s.Check(k.Config.MaxTTL, k.Config.CommandTimeout, !s.Durable || k.Server.CanConfirm())
	}
	if err == nil && len(opts) > 0 {
		err = s.Describe(k.Host, &k.Defaults)
	}
	switch {
	case err != nil:
		s = s.Copy()
		s.Called, s.Err = name, fmt.Errorf("%w: lock %.64q: %w", ErrInvalid, name, err)
	case len(opts) > 0:
		s = k.Cache.Share(s)
	}
	l.Keys, l.Set = place, s
}

// Name returns the lock's name. It is taken from the lock's key if possible, so that the caller's string need not be kept.
func (l *Lock) Name() string {
	switch {
	case l.Set.Called != "":
		return l.Set.Called
	case l.Set.Key != "":
		return l.Set.Key
	}
	if name, exact := l.Of.Space.NameOf(l.Keys.Lock); !exact {
		return name
	}
	return "" // the key is no lock's
}

// Malformed returns the error for a reply that makes no sense.
func (l *Lock) Malformed(op string) error {
	return &exec.Failure{Op: op, Name: l.Name(), Server: l.Of.Server.Addr(), Err: wire.ErrMalformed}
}

// Ready connects to the server. It returns an error if the lock cannot be acquired, before any I/O if possible.
func (l *Lock) Ready(ctx context.Context) error {
	k := l.Of
	switch {
	case l.Set.Err != nil:
		return l.Set.Err
	case k.IsClosing():
		return exec.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if k.Server.Info() == nil {
		if err := k.Server.Connect(ctx, l.Name()); err != nil {
			return err
		}
	}
	k.checkOnce.Do(func() { k.Tasks.Run(func() { k.checkServer(l) }) })
	return nil
}

// Ref returns the lock as package codec's requests name it.
func (l *Lock) Ref() codec.Lock {
	k := codec.Keys{Lock: l.Keys.Lock, Queue: l.Keys.Queue, Fence: l.FenceKey()}
	if l.Set.Kind.IsShared {
		k.Holds = l.Keys.Expiries()
	}
	if l.Of.Config.Strict {
		k.Mark = l.Of.Space.Incarnation
	}
	return codec.Lock{Keys: k, Flags: l.Flags()}
}

// Flags returns the flags by which scripts learn about the lock and its server.
func (l *Lock) Flags() (f codec.Flags) {
	if l.Of.Server.InCluster() {
		f = codec.Cluster
	}
	return f + l.Set.Kind.Flags + l.Of.strict
}

// FenceKey returns the key of the counter that issues the lock's fences.
func (l *Lock) FenceKey() string {
	if l.Of.Server.InCluster() {
		return l.Of.Space.SlotFence(keys.Slot(l.Keys.Lock))
	}
	return l.Of.Space.Fence
}

// Slot returns the lock's Cluster slot, or 0 outside Cluster mode.
func (l *Lock) Slot() uint16 {
	if l.Of.Server.InCluster() {
		return keys.Slot(l.Keys.Lock)
	}
	return 0
}

// NotAfter returns the server time, in µs, after which the server carries out no copy of a request that is sent now.
func (l *Lock) NotAfter() int64 {
	k := l.Of
	return k.Server.Time(l.Slot()) + (k.Config.RetryTimeout + k.Config.CommandTimeout + time.Second).Microseconds()
}

// ClockJumps returns the error of a request whose copies all arrived after their not-after times.
func (l *Lock) ClockJumps(op string) error {
	return &exec.Failure{Op: op, Name: l.Name(), Server: l.Of.Server.Addr(), Kind: exec.ErrUnavailable, Err: Unadvised("its clock jumps")}
}

// Unadvised is an error that the caller can do nothing about.
type Unadvised string

func (e Unadvised) Error() string { return string(e) }

// Advice returns "".
func (Unadvised) Advice() string { return "" }
