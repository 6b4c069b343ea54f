package ui_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestWhatHappenedBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	page := open(t, newStage(t, nil).url, 1280, 800)
	const (
		ann  = `{owner: "ann", grant: "aaaaaaaa", since: 900000, until: 1010000}`
		bob  = `{owner: "bob", grant: "bbbbbbbb", since: 999500, until: 1030000}`
		dead = `{owner: "ann", grant: "aaaaaaaa", since: 900000, until: 999000}`
	)
	for name, c := range map[string]struct {
		before, after string
		waited        int
		apart         int // ms
		want          string
	}{
		"a grant":                         {"", bob, 0, 1000, "granted bob 999500"},
		"a renewal":                       {dead, ann, 0, 1000, ""},
		"a release":                       {ann, "", 0, 1000, "released ann 1000000"},
		"a lease that ran out":            {dead, "", 0, 1000, "expired ann 1000000"},
		"a loss that nobody saw":          {dead, "", 0, 60000, "gone ann 1000000"}, // it may have been renewed meanwhile, and released
		"a hand-over":                     {ann, bob, 1, 1000, "handed over bob 999500 ann"},
		"a loss, after which another had": {dead, bob, 1, 1000, "expired ann 999500, handed over bob 999500 ann"},
		"a release and a newcomer":        {ann, bob, 0, 1000, "released ann 999500, granted bob 999500"},
		"one of several":                  {ann + "," + bob, bob, 0, 1000, "released ann 1000000"},
	} {
		got := eval[string](page, `import(new URL("assets/timeline.js", location.href)).then(({ note, timelineOf }) => {
			const [before, after] = [{ t: 1000000 - %d, waiting: %d, holders: [%s] }, { t: 1000000, waiting: 0, holders: [%s] }];
			note(%[5]s, before, after);
			note(%[5]s, before, after); // as the list and the page of a lock may
			return timelineOf(%[5]s).map((h) => [h.what, h.owner, h.t, h.from].filter(Boolean).join(" ")).join(", ");
		})`, c.apart, c.waited, c.before, c.after, quote(name))
		expect.Equal(t, name, got, c.want)
	}
}

func TestTimelinesAreBounded(t *testing.T) {
	t.Parallel()
	page := open(t, newStage(t, nil).url, 1280, 800)
	got := eval[[]int](page, `import(new URL("assets/timeline.js", location.href)).then(({ note, timelineOf }) => {
		const granted = (name, i) => note(name, { t: i, waiting: 0, holders: [] }, { t: i, waiting: 0, holders: [{ owner: "ann", grant: "g" + i }] });
		for (let i = 0; i < 300; i++) granted("busy", i);
		const busy = timelineOf("busy");
		for (let i = 0; i < 1000; i++) granted("lock-" + i, i);
		return [busy.length, busy[0].t, timelineOf("busy").length, timelineOf("lock-0").length];
	})`)
	expect.Equal(t, "the timelines", fmt.Sprint(got), "[100 200 0 1]")
}
