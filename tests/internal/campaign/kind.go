package campaign

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault. One that is added to kinds takes part in every campaign.
type Kind struct {
	Name string
	// Breaks is the assumption that does not hold while this goes on.
	Breaks Assumption
	// Prepare changes a history's plan so that the fault can happen in it; nil if
	// nothing needs to be changed.
	Prepare func(*Plan)
	// Do makes the fault happen, and ends it before it returns. It calls struck when
	// the fault has come about.
	Do func(*Scene)

	// HidesQueue says that the order of the queue cannot be followed: the server's log
	// ends, or the queue is lost.
	HidesQueue bool
	// Mutes says that notifications may be lost, and nobody be told of it.
	Mutes bool
	// LosesQueue says that the queue is removed, with what it remembers.
	LosesQueue bool
	// ForgetsFences says that the fence counter is lost, or brought back as it was. Fences
	// rise all the same, unless the server's clock goes back, too.
	ForgetsFences bool
	// BringsBack says that holds are there again that were given up. Who joins them has their fence.
	BringsBack bool
	// Orphans says that it can leave a lock or a place in the queue without an owner
	// who could give it up.
	Orphans bool
	// Waiting says that it befalls those who wait in a queue and are notified.
	Waiting bool
	// Slow says that waiters may have to wait for as long as a lock lasts. Without
	// such faults locks may have a TTL that is longer than a history may take.
	Slow bool
}

// Assumption is one of those on which exclusion rests; docs/GUARANTEES.md has them.
type Assumption string

const (
	None     Assumption = ""      // nothing that locks do not have to bear
	DataKept Assumption = "data"  // the server keeps what it acknowledged
	OwnKeys  Assumption = "keys"  // nobody else writes to, or removes, a lock's key
	ClockRun Assumption = "clock" // the server's clock does not jump
)

// Mode is how the locks under test deal with a server that lost its data.
type Mode string

const (
	Default Mode = "default" // DataKept is assumed
	Strict  Mode = "strict"  // it is not
)

// Within reports whether exclusion is promised while the fault goes on.
func (k *Kind) Within(m Mode) bool {
	return k.Breaks == None || k.Breaks == DataKept && m == Strict
}

// kinds are all kinds of faults, in the order of reports.
var kinds = slices.Concat(networkKinds, serverKinds, settingKinds, dataKinds, processKinds)

// Kinds returns the kinds of faults of those names; all, but for those that need what
// the configuration does not have, if there are no names.
func Kinds(cfg *Config, names ...string) ([]*Kind, error) {
	var found []*Kind
	for _, name := range names {
		i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == name })
		if i < 0 {
			var all []string
			for _, k := range kinds {
				all = append(all, k.Name)
			}
			return nil, fmt.Errorf("no kind of fault %q; there are %s", name, strings.Join(all, ", "))
		}
		if !befalls(kinds[i], cfg.subject()) {
			return nil, fmt.Errorf("%s does not befall a %s", name, cfg.subject().Name())
		}
		if kinds[i] == clockJump && cfg.Clock == nil {
			return nil, fmt.Errorf("%s needs a clock that can be moved", name)
		}
		found = append(found, kinds[i])
	}
	if len(names) == 0 {
		found = slices.DeleteFunc(slices.Clone(kinds), func(k *Kind) bool {
			return k == clockJump && cfg.Clock == nil || !befalls(k, cfg.subject())
		})
	}
	return found, nil
}

// befalls reports whether a fault of this kind can come about where there are such locks.
func befalls(k *Kind, s Subject) bool {
	return (s.HasExactKeys() || !isStranger(k)) && (s.HasQueue() || !k.Waiting)
}

// brief and past are how long faults last: shorter than the leases of a history, and
// longer than its short ones.
func (s *Scene) brief() time.Duration { return s.between(s.plan.ShortTTL/20, s.plan.ShortTTL/2) }

func (s *Scene) past() time.Duration {
	return s.plan.ShortTTL + s.between(s.plan.ShortTTL/4, s.plan.ShortTTL)
}

// aWhile is either.
func (s *Scene) aWhile() time.Duration {
	return s.between(s.plan.ShortTTL/20, 2*s.plan.ShortTTL)
}
