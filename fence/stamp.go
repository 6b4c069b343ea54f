package fence

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
)

// Lease is what this package needs of a lease. *holdfast.Lease implements it.
type Lease interface {
	Name() string
	Identity() string
	Fence() uint64
	Fences() map[string]uint64
	IsShared() bool
	Err() error
}

// Stamp identifies a lease. A holder puts it on every write, and the resource compares it with its mark.
type Stamp struct {
	Lock  string // the lock's name; for messages, not compared
	Fence uint64 // the lease's fence, from 1 to math.MaxInt64
	// Owner is the identity of the lease's holder. It tells apart two leases with the same fence, which can exist after a server
	// has lost its data and its clock went back. It has at most 1024 bytes of UTF-8 without NUL.
	Owner string
	// Shared says that others may hold the lock with the same fence, because the lease is a reader's. A mark with this
	// fence accepts the stamp, whatever the mark's owner.
	Shared bool
}

// Of returns the stamp of a lease, or the lease's error if it is over. The stamp stays the same when the lease ends:
// then the resource refuses it.
//
// A lease of several locks (Client.Multi) has a fence for each of them and no common one, so Of returns ErrInvalid. Use
// Part to choose the lock that guards the resource.
func Of(l Lease) (Stamp, error) {
	if err := l.Err(); err != nil {
		return Stamp{}, err
	}
	if n := len(l.Fences()); n > 1 {
		return Stamp{}, fmt.Errorf("%w: a lease of %d locks has no fence of its own; choose the lock that guards the resource with Part",
			holdfast.ErrInvalid, n)
	}
	s := Stamp{Lock: l.Name(), Fence: l.Fence(), Owner: l.Identity(), Shared: l.IsShared()}
	return s, s.check()
}

// Part returns a lease of several locks (Client.Multi) as the lease of one of them, with that lock's fence, for Of and
// NewContext. It is over when the whole lease is. If the lease has no lock with that name, Err returns ErrInvalid.
func Part(l Lease, lock string) Lease { return part{l, lock} }

type part struct {
	Lease
	lock string
}

func (p part) Name() string { return p.lock }

func (p part) Fence() uint64 { return p.Lease.Fences()[p.lock] }

func (p part) Fences() map[string]uint64 { return map[string]uint64{p.lock: p.Fence()} }

func (p part) Err() error {
	if _, ok := p.Lease.Fences()[p.lock]; !ok {
		return fmt.Errorf("%w: the lease of %.64q has no lock named %.64q", holdfast.ErrInvalid, p.Lease.Name(), p.lock)
	}
	return p.Lease.Err()
}

// maxOwner bounds owners, in bytes. A lock's value has room for less.
const maxOwner = 1024

// check returns an error if some resource could not store the stamp.
func (s Stamp) check() error {
	switch {
	case s.Fence == 0:
		return fmt.Errorf("%w: the stamp has no fence; take it from a lease with Of", holdfast.ErrInvalid)
	case s.Fence > math.MaxInt64:
		return fmt.Errorf("%w: fence %d does not fit into a signed 64-bit integer", holdfast.ErrInvalid, s.Fence)
	case s.Owner == "":
		return fmt.Errorf("%w: the stamp has no owner; take it from a lease with Of", holdfast.ErrInvalid)
	case len(s.Owner) > maxOwner:
		return fmt.Errorf("%w: the owner is %d bytes long; the limit is %d", holdfast.ErrInvalid, len(s.Owner), maxOwner)
	case !utf8.ValidString(s.Owner) || strings.ContainsRune(s.Owner, 0):
		return fmt.Errorf("%w: owner %q is not UTF-8 or contains NUL", holdfast.ErrInvalid, s.Owner)
	}
	return nil
}

// within is check, and also returns an error if the fence is ahead of the clock by more than maxLead, unless that is 0.
func (s Stamp) within(maxLead time.Duration) error {
	if maxLead < 0 {
		return fmt.Errorf("%w: MaxLead is %s; it must be positive, or 0 to accept any fence", holdfast.ErrInvalid, maxLead)
	}
	if err := s.check(); err != nil || maxLead == 0 {
		return err
	}
	if lead := time.Until(time.UnixMicro(int64(s.Fence))); lead > maxLead {
		return fmt.Errorf("%w: fence %d of lock %.64q is %s ahead, and MaxLead is %s; "+
			"check this clock, the lock server's clock, and who may write its fence counter", ErrAhead, s.Fence, s.Lock, lead.Round(time.Second), maxLead)
	}
	return nil
}
