package campaign

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault. Every campaign uses all that are in kinds.
type Kind struct {
	Name string
	// Breaks is the assumption that does not hold during the fault.
	Breaks Assumption
	// Prepare changes a history's plan so that the fault can happen in it; nil if
	// nothing needs to be changed.
	Prepare func(*Plan)
	// Do makes the fault happen, and ends it before it returns. It calls struck when the fault has happened.
	Do func(*Scene)

	// HidesQueue says that the order of the queue cannot be followed, because the server's log ends or the
	// queue is lost.
	HidesQueue bool
	// Mutes says that notifications may be lost without an error.
	Mutes bool
	// LosesQueue says that the queue is removed, with everything that it remembers.
	LosesQueue bool
	// ForgetsFences says that the fence counter is lost, or set back. Fences still rise, unless the server's
	// clock is set back, too.
	ForgetsFences bool
	// BringsBack says that holds which were given up exist again. A reader that joins them has their fence.
	BringsBack bool
	// Orphans says that the fault can leave a lock or a place in the queue whose owner no longer exists.
	Orphans bool
	// Waiting says that the fault concerns waiters that are queued and notified.
	Waiting bool
	// Slow says that waiters may have to wait for as long as a lock lasts. Without such faults, locks may have
	// a TTL longer than a history.
	Slow bool
}

// Assumption is an assumption on which exclusion rests; docs/GUARANTEES.md has them.
type Assumption string

const (
	None     Assumption = ""      // locks must withstand it
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

// Kinds returns the kinds of faults with those names. Without names it returns all kinds that are possible with
// the configuration.
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

// befalls reports whether a fault of this kind can happen to such locks.
func befalls(k *Kind, s Subject) bool {
	return (hasExactKeys(s) || !isStranger(k)) && (s.HasQueue() || !k.Waiting)
}

// brief and past are durations of faults: shorter than a history's leases, and longer than its short ones.
func (s *Scene) brief() time.Duration { return s.between(s.plan.ShortTTL/20, s.plan.ShortTTL/2) }

func (s *Scene) past() time.Duration {
	return s.plan.ShortTTL + s.between(s.plan.ShortTTL/4, s.plan.ShortTTL)
}

// aWhile returns either.
func (s *Scene) aWhile() time.Duration {
	return s.between(s.plan.ShortTTL/20, 2*s.plan.ShortTTL)
}
