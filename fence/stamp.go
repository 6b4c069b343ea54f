package fence

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
)

// Lease is what this package asks of a lease. *holdfast.Lease is one.
type Lease interface {
	Name() string
	Owner() string
	Token() uint64
	Tokens() map[string]uint64
	IsShared() bool
	Err() error
}

// Stamp is what a holder puts on every write, for the resource to compare.
type Stamp struct {
	Lock  string // the lock's name, for messages: resources compare the rest
	Fence uint64 // of the lease: from 1 to math.MaxInt64
	// Owner tells two leases with the same fence apart, which exist when a server
	// lost its data and its clock went back. At most 1024 bytes of UTF-8 without NUL.
	Owner string
	// Shared says that others may hold the lock with the same fence: the lease is a
	// reader's. A mark with this fence lets it in, whoever left the mark.
	Shared bool
}

// Of returns the stamp of a lease, or the lease's error when it is over. A stamp goes on
// naming its lease after that: it is the resource that refuses it.
//
// A lease of several locks (Client.Multi) has a fence for each of them, and none for all: Of
// returns ErrInvalid. Give it the one that guards the resource, with Part.
func Of(l Lease) (Stamp, error) {
	if err := l.Err(); err != nil {
		return Stamp{}, err
	}
	if n := len(l.Tokens()); n > 1 {
		return Stamp{}, fmt.Errorf("%w: a lease of %d locks has no fence of its own; name the lock that guards the resource, with Part", holdfast.ErrInvalid, n)
	}
	s := Stamp{Lock: l.Name(), Fence: l.Token(), Owner: l.Owner(), Shared: l.IsShared()}
	return s, s.check()
}

// Part returns a lease of several locks (Client.Multi) as the lease of one of them, for Of and
// NewContext: with the fence that the resources of that lock know. It is over when the whole
// lease is. If the lease has no lock of that name, its Err is ErrInvalid.
func Part(l Lease, lock string) Lease { return part{l, lock} }

// part is one of the locks of a lease.
type part struct {
	Lease
	lock string
}

func (p part) Name() string { return p.lock }

func (p part) Token() uint64 { return p.Lease.Tokens()[p.lock] }

func (p part) Tokens() map[string]uint64 { return map[string]uint64{p.lock: p.Token()} }

func (p part) Err() error {
	if _, has := p.Lease.Tokens()[p.lock]; !has {
		return fmt.Errorf("%w: a lease of %.64q has no lock of the name %.64q", holdfast.ErrInvalid, p.Lease.Name(), p.lock)
	}
	return p.Lease.Err()
}

// maxOwner bounds owners, in bytes: a lock's value has room for less.
const maxOwner = 1024

// check refuses what some resource could not keep.
func (s Stamp) check() error {
	switch {
	case s.Fence == 0:
		return fmt.Errorf("%w: a stamp without a fence; take it from a lease, with Of", holdfast.ErrInvalid)
	case s.Fence > math.MaxInt64:
		return fmt.Errorf("%w: fence %d does not fit into a signed 64-bit integer", holdfast.ErrInvalid, s.Fence)
	case s.Owner == "":
		return fmt.Errorf("%w: a stamp without an owner; take it from a lease, with Of", holdfast.ErrInvalid)
	case len(s.Owner) > maxOwner:
		return fmt.Errorf("%w: the owner is %d bytes long; at most %d are allowed", holdfast.ErrInvalid, len(s.Owner), maxOwner)
	case !utf8.ValidString(s.Owner) || strings.ContainsRune(s.Owner, 0):
		return fmt.Errorf("%w: owner %q is not UTF-8, or contains a NUL", holdfast.ErrInvalid, s.Owner)
	}
	return nil
}

// within refuses what some resource could not keep, and a fence that leads the clock by more than lead, if
// that is not 0.
func (s Stamp) within(lead time.Duration) error {
	if lead < 0 {
		return fmt.Errorf("%w: a MaxLead of %s; 0 for any", holdfast.ErrInvalid, lead)
	}
	if err := s.check(); err != nil || lead == 0 {
		return err
	}
	if by := time.Until(time.UnixMicro(int64(s.Fence))); by > lead {
		return fmt.Errorf("%w: fence %d of lock %.64q leads it by %s, and MaxLead is %s; see to this clock and the lock server's, and to who may write its fence counter",
			ErrAhead, s.Fence, s.Lock, by.Round(time.Second), lead)
	}
	return nil
}

// beside says, in words, whether others may hold the lock with the same fence.
func (s Stamp) beside() string {
	if s.Shared {
		return "shared"
	}
	return "alone"
}

// Mark is the highest fence that a resource has seen, and who showed it. The zero
// Mark has seen nothing.
type Mark struct {
	Fence uint64
	Owner string
}

// mark returns the mark that s leaves.
func (s Stamp) mark() Mark { return Mark{s.Fence, s.Owner} }

// refuses reports whether a resource with this mark refuses s.
func (m Mark) refuses(s Stamp) bool {
	return s.Fence < m.Fence || s.Fence == m.Fence && s.Owner != m.Owner && !s.Shared
}
