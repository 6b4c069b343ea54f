package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

func TestWhatHappenedBetweenTwoLooks(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	ann, bob := held{owner: "ann", grant: "aaaaaaaa", fence: 1, since: 900_000, until: 1_010_000}, held{owner: "bob", grant: "bbbbbbbb", fence: 2, since: 999_500, until: 1_030_000}
	renewed, dead, young := ann, ann, ann
	renewed.until, dead.until, young.fence = 1_020_000, 999_000, 0
	for name, c := range map[string]struct {
		before, after []held
		waited        int
		want          string
	}{
		"a grant":                         {nil, []held{bob}, 0, "[granted bob 999500 ]"},
		"a renewal":                       {[]held{ann}, []held{renewed}, 0, "[]"},
		"a fence that becomes known":      {[]held{young}, []held{ann}, 0, "[]"},
		"a release":                       {[]held{ann}, nil, 0, "[released ann 1000000 ]"},
		"a lease that ran out":            {[]held{dead}, nil, 0, "[expired ann 1000000 ]"},
		"a hand-over":                     {[]held{ann}, []held{bob}, 1, "[handed over bob 999500 ann]"},
		"a loss, after which another had": {[]held{dead}, []held{bob}, 1, "[expired ann 999500  handed over bob 999500 ann]"},
		"a release and a newcomer":        {[]held{ann}, []held{bob}, 0, "[released ann 999500  granted bob 999500 ]"},
		"one of several":                  {[]held{ann, bob}, []held{bob}, 0, "[released ann 1000000 ]"},
	} {
		l := newTimelines()
		l.compare("x", c.before, c.after, c.waited, at)
		var got []string
		for _, h := range l.of("x") {
			got = append(got, fmt.Sprint(h.What, " ", h.Owner, " ", h.Time, " ", h.From))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// The timeline has the breaks and revocations by operators. A break replaces the release that it looked like.
func TestTheRecordIsInTheTimeline(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	ann := holdfast.Holder{Identity: "ann", Grant: "aaaaaaaa", Since: at.Add(-time.Second)}
	record := []inspect.Broken{
		{Holder: ann, By: "eve", Reason: "hangs", Time: at, Fence: 2},
		{Holder: holdfast.Holder{Grant: "aaaaaaaa", Fence: 1}, By: "eve", Reason: "please", Time: at.Add(-10 * time.Millisecond), Revoked: true},
		{Holder: holdfast.Holder{Grant: "bbbbbbbb", Fence: 9}, By: "eve", Time: at.Add(-time.Hour), Revoked: true}, // of a holder that nobody saw
	}
	seen := []happening{{Time: at.UnixMilli() + 5, What: released, Owner: "ann", Grant: "aaaaaaaa"}, {Time: at.UnixMilli() - 1000, What: granted, Owner: "ann", Host: "web-1", Grant: "aaaaaaaa"}}
	var got []string
	for _, h := range withRecord(seen, record) {
		got = append(got, fmt.Sprintf("%s %s@%s %d %s %s", h.What, h.Owner, h.Host, h.Held, h.By, h.Reason))
	}
	if want := "[broken ann@ 1000 eve hangs, revoked ann@web-1 0 eve please, granted ann@web-1 0  , revoked @ 0 eve ]"; "["+strings.Join(got, ", ")+"]" != want {
		t.Errorf("%q, want %s", got, want)
	}
}

func TestTimelinesAreBounded(t *testing.T) {
	l := newTimelines()
	for i := range 3 * longestTimeline {
		l.add("busy", happening{Time: int64(i)})
	}
	if all := l.of("busy"); len(all) != longestTimeline || all[0].Time != 2*longestTimeline {
		t.Errorf("%d, from %d", len(all), all[0].Time)
	}
	for i := range mostHappenings {
		l.add(fmt.Sprint("lock-", i), happening{})
		if i == 10 {
			l.add("busy", happening{Time: -1}) // now others are older
		}
	}
	if l.all > mostHappenings || l.all < mostHappenings-longestTimeline || l.of("lock-0") != nil || l.of(fmt.Sprint("lock-", mostHappenings-1)) == nil || len(l.byName) != l.last.Len() {
		t.Errorf("%d happenings of %d locks", l.all, len(l.byName))
	}
}
