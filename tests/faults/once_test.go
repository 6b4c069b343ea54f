package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// succeeds is a run of a job.
func succeeds(context.Context, *holdfast.Lease) (string, error) { return "done", nil }

// jobThrough returns a job by its window's name. The server has its scripts.
func jobThrough(t *testing.T, p *proxy.Proxy) func(window string) *once.Job {
	t.Helper()
	c := through(t, p, steady)
	job := func(window string) *once.Job { return once.New(c, "j", once.Slot(window, time.Hour)) }
	expect.OK(t, expect.ErrOf(job("warm-up").Do(t.Context(), succeeds)))
	return job
}

// Fault: Replies to the requests of a job are lost. A begin counts once, and a completion is recognized as the caller's own.
func TestLostRepliesToJobs(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		job := jobThrough(t, p)
		for what, after := range map[string]proxy.After{"connection cut": proxy.Cut, "silence": proxy.Hang} {
			for _, s := range []script.Script{script.OnceBegin(), script.OnceComplete()} {
				window := s.Name + " " + what
				trap := p.LoseReply(running(s, "j"), after)
				run, err := job(window).Do(t.Context(), succeeds)
				if err != nil || !run.Here || run.Try != 1 {
					t.Errorf("%s: %+v, %v", window, run, err)
				}
				trap.Reply(t)
				again, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					t.Errorf("%s: it runs again", window)
					return "", nil
				})
				if err != nil || again.Fence != run.Fence || again.Try != 1 || !again.Time.Equal(run.Time) {
					t.Errorf("%s: it was %+v, and is %+v, %v", window, run, again, err)
				}
			}
		}
		free(t, b, "j")
	})
}

// Fault: A job's requests are doubled, or a copy comes after the run. Both copies count once; the late one changes
// nothing, not even if another run has begun.
func TestLateAndDoubledCopiesForJobs(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		job := jobThrough(t, p)
		fails := errors.New("fails")
		for _, s := range []script.Script{script.OnceBegin(), script.OnceComplete()} {
			// The first run's completion is late, and fails after the second run's begin; the second run is completed.
			window := "late " + s.Name
			held := p.Hold(running(s, "j"), proxy.Cut)
			first, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				if s == script.OnceBegin() {
					return "", fails
				}
				return "first", nil
			})
			if s == script.OnceBegin() && !errors.Is(err, fails) || s == script.OnceComplete() && (err != nil || !first.Here) {
				t.Errorf("%s: %+v, %v", window, first, err)
			}
			if s == script.OnceBegin() {
				held.Forward(t)
				run, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					held.Forward(t) // while another runs
					return "second", nil
				})
				if err != nil || run.Try != 2 {
					t.Errorf("%s: the second run: %+v, %v", window, run, err)
				}
				first = run
			}
			held.Forward(t)
			last, err := job(window).Last(t.Context())
			if err != nil || last.Fence != first.Fence || last.Try != first.Try || !last.Time.Equal(first.Time) {
				t.Errorf("%s: it was %+v, and after a late copy is %+v, %v", window, first, last, err)
			}

			window = "doubled " + s.Name
			trap := p.Double(running(s, "j"))
			run, err := job(window).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				if s == script.OnceBegin() {
					trap.Reply(t)
				}
				return "", nil
			})
			if err != nil || !run.Here || run.Try != 1 {
				t.Errorf("%s: %+v, %v", window, run, err)
			}
			if s == script.OnceComplete() {
				trap.Reply(t)
			}
			if last, err := job(window).Last(t.Context()); err != nil || last.Try != 1 || last.Fence != run.Fence {
				t.Errorf("%s: it was %+v, and is %+v, %v", window, run, last, err)
			}
		}
		free(t, b, "j")
	})
}
