package ui

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

const (
	// longestTimeline is how much is kept of what happened to one lock.
	longestTimeline = 100
	// mostHappenings is how much is kept in all; the locks that changed longest ago are forgotten first.
	mostHappenings = 50_000
)

// happening is one line of a lock's timeline.
type happening struct {
	Time  int64  `json:"t"` // when it was seen, or of a grant when it was, by the server's clock in Unix milliseconds
	What  what   `json:"what"`
	Owner string `json:"owner,omitempty"` // who has it now, or had it until then
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Grant string `json:"grant,omitempty"`
	Fence string `json:"fence,omitempty"`
	Mode  string `json:"mode,omitempty"`
	Held  int64  `json:"held,omitempty"` // for how long the holder had it, in milliseconds; of a hand-over, the one before
	From  string `json:"from,omitempty"` // of a hand-over: who had it before

	By     string `json:"by,omitempty"` // of a break or a revocation: who did it, and why
	Reason string `json:"reason,omitempty"`
}

// what says what happened.
type what string

// What happens to a lock.
const (
	granted    what = "granted"
	handedOver what = "handed over" // to a waiter, when the holder before let go
	released   what = "released"
	broken     what = "broken"
	revoked    what = "revoked" // the holder was asked to let go
	expired    what = "expired" // the lease ran out: the holder died, hung, or could not renew it
)

// held is what is remembered of a holder until the next look.
type held struct {
	owner, host string
	pid         int
	mode        holdfast.Mode
	permits     int
	grant       string
	since       int64
	foreign     bool

	fence uint64 // 0: not known yet
	until int64  // 0: no expiry
}

func heldBy(s *holdfast.Status) []held {
	all := make([]held, 0, len(s.Holders))
	for i := range s.Holders {
		h := &s.Holders[i]
		all = append(all, held{
			owner: h.Identity, host: h.Host, pid: h.PID, mode: h.Mode, permits: h.Permits, grant: h.Grant, since: millis(h.Since), foreign: h.Foreign,
			fence: h.Fence, until: expiry(h, s.Time),
		})
	}
	return all
}

// is reports whether both are the same holder's same grant.
func (h held) is(other held) bool {
	h.fence, h.until = other.fence, other.until
	return h == other
}

// timelines are what happened to locks while the board looked.
type timelines struct {
	byName map[string]*list.Element // by name
	last   *list.List               // of *timeline; the one that changed last is at the front
	all    int                      // happenings
}

// timeline is what happened to a lock, in order.
type timeline struct {
	name string
	all  []happening
}

func newTimelines() timelines { return timelines{byName: map[string]*list.Element{}, last: list.New()} }

// of returns a copy of a lock's timeline.
func (t *timelines) of(name string) []happening {
	if e := t.byName[name]; e != nil {
		return slices.Clone(e.Value.(*timeline).all)
	}
	return nil
}

// add adds to a lock's timeline.
func (t *timelines) add(name string, h happening) {
	e := t.byName[name]
	if e == nil {
		e = t.last.PushFront(&timeline{name: name})
		t.byName[name] = e
	}
	t.last.MoveToFront(e)
	l := e.Value.(*timeline)
	if len(l.all) == longestTimeline {
		l.all = slices.Delete(l.all, 0, 1)
		t.all--
	}
	l.all = append(l.all, h)
	for t.all++; t.all > mostHappenings; {
		oldest := t.last.Remove(t.last.Back()).(*timeline)
		delete(t.byName, oldest.name)
		t.all -= len(oldest.all)
	}
}

// compare adds what must have happened to a lock between two looks. waited is the number of waiters at the first look.
func (t *timelines) compare(name string, before, after []held, waited int, now time.Time) {
	gone, came := without(before, after), without(after, before)
	at := now.UnixMilli()
	ended := at // when the lock was let go, at the latest
	if len(came) > 0 && len(after) == len(came) && came[0].since != 0 {
		ended = min(ended, came[0].since)
	}
	handed := len(gone) > 0 && waited > 0
	for _, h := range gone {
		end := h.happening(ended, released)
		end.Held = h.age(ended)
		if h.until != 0 && h.until <= at {
			end.What = expired
		}
		if end.What == expired || !handed || len(gone) > 1 || len(came) != 1 { // otherwise the hand-over says it all
			t.add(name, end)
		}
	}
	for _, h := range came {
		own := h.happening(at, granted)
		if h.since != 0 {
			own.Time = h.since
		}
		if handed {
			own.What, own.From, own.Held = handedOver, gone[0].name(), gone[0].age(ended)
		}
		t.add(name, own)
	}
}

// without returns the holders that are not among others.
func without(all, others []held) (rest []held) {
	for _, h := range all {
		if !slices.ContainsFunc(others, h.is) {
			rest = append(rest, h)
		}
	}
	return rest
}

func (h held) happening(at int64, what what) happening {
	return happening{Time: at, What: what, Owner: h.name(), Host: h.host, PID: h.pid, Grant: h.grant, Fence: fenceText(h.fence), Mode: string(h.mode)}
}

func (h held) age(now int64) int64 {
	if h.since == 0 {
		return 0
	}
	return max(now-h.since, 0)
}

func (h held) name() string {
	if h.foreign {
		return "another program"
	}
	return h.owner
}

// withRecord adds the breaks and revocations on record to a timeline. A break replaces the release that it looked like. The timeline and
// the record begin with the latest.
func withRecord(all []happening, record []inspect.Broken) []happening {
	if len(record) == 0 {
		return all
	}
	for i := range record {
		b := &record[i]
		own := happening{
			Time: millis(b.Time), What: broken, Owner: b.Holder.Identity, Host: b.Holder.Host, PID: b.Holder.PID, Grant: b.Holder.Grant,
			Fence: fenceText(b.Holder.Fence), By: b.By, Reason: b.Reason,
		}
		if b.Revoked {
			own.What = revoked
			if at := slices.IndexFunc(all, func(h happening) bool { return h.Grant == own.Grant }); at >= 0 {
				own.Owner, own.Host, own.PID = all[at].Owner, all[at].Host, all[at].PID
			}
		} else {
			all = slices.DeleteFunc(all, func(h happening) bool { return h.What == released && h.Grant == own.Grant })
		}
		if since := millis(b.Holder.Since); since != 0 {
			own.Held = max(own.Time-since, 0)
		}
		all = append(all, own)
	}
	slices.SortStableFunc(all, func(a, b happening) int { return cmp.Compare(b.Time, a.Time) })
	return all[:min(len(all), longestTimeline)]
}
