package compatibility

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
)

// Both sides together do a job once, in a window that begins with a run and in a named one, and each learns of
// the other's run.
func TestAJobIsDoneOnceByBoth(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		old func(c *hf1.Client, name string) hf1.Job
		new func(p *process, name string) job
	}{
		"every hour": {
			func(c *hf1.Client, name string) hf1.Job { return c.Job(name, time.Hour, "") },
			func(p *process, name string) job { return p.every(name, time.Hour) },
		},
		"in a window with a name": {
			func(c *hf1.Client, name string) hf1.Job { return c.Job(name, 0, "22:00 {100%}") },
			func(p *process, name string) job { return p.slot(name, "22:00 {100%}") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				p, c := library(t, s), recorded(t, s)

				// The recorded client does it, at its second try, while the library waits.
				theirs, ours := k.old(c, "theirs"), k.new(p, "theirs")
				a := theirs.Lock.New(term)
				a.Try().Want("granted")
				same(t, "the try", theirs.Begin(a, 0).Want("begun").Int("TRY"), 1)
				a.Release().Want("released")
				a = theirs.Lock.New(term)
				a.Try().Want("granted")
				same(t, "the try", theirs.Begin(a, 2).Want("begun").Int("TRY"), 2)
				ours.refused()
				runs := make(chan run, 1)
				go func() { runs <- ours.run("ours") }()
				waitFor(t, theirs.Lock, 1)
				theirs.Complete(a, "a\nresult").Want("completed")
				a.Release().Want("released")
				got := receive(t, "the run that counts", runs)
				same(t, "the run that the library knows", got, run{false, "old", "a\nresult", a.Fence, 2})

				// The library does it, after a failed run of its own and one of the recorded client's.
				theirs, ours = k.old(c, "ours"), k.new(p, "ours")
				ours.fail()
				same(t, "the tries", theirs.Look().Want("none").Int("TRIES"), 1)
				a = theirs.Lock.New(term)
				a.Try().Want("granted")
				theirs.Begin(a, 1).Want("spent")
				same(t, "the try", theirs.Begin(a, 0).Want("begun").Int("TRY"), 2)
				a.Release().Want("released")
				got = ours.run("a\nresult")
				same(t, "the run", run{got.here, got.owner, got.result, 0, got.try}, run{true, "new", "a\nresult", 0, 3})
				rising(t, a.Fence, got.fence)
				a = theirs.Lock.New(term)
				a.Try().Want("granted")
				for _, r := range []hf1.Reply{theirs.Look().Want("done"), theirs.Begin(a, 0).Want("done")} {
					same(t, "the run's fence", r.Int("FENCE"), got.fence)
					same(t, "the run's try", r.Int("TRY"), 3)
					same(t, "whether it counts", r.Text("COUNTS"), "counts")
					same(t, "the run's owner", r.Info().Owner, "new")
					same(t, "the run's result", r.Result(), "a\nresult")
				}
				a.Release().Want("released")
			})
		})
	}
}
