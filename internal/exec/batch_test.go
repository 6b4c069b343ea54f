package exec

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// prompt is a fake that answers prompt calls after a second.
type prompt struct {
	fake
	inFlight atomic.Int32
}

func (p *prompt) RunPrompt(context.Context, time.Time, driver.Call) (string, error) {
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	time.Sleep(time.Second)
	return "done", nil
}

// anything is a batch's call, and the reply to it.
type anything struct{}

func (anything) Call() driver.Call              { return driver.Call{} }
func (anything) Parse(string) (anything, error) { return anything{}, nil }
func (anything) Time() int64                    { return 0 }

// Batches of several items share the client library's connections if there are many. A single item does not wait for them.
func TestFewBatchesOfSeveralItemsArePrompt(t *testing.T) {
	p := &prompt{fake: fake{answer: func(int) (string, error) { return "done", nil }}}
	within(t, p, func(t *testing.T, w *world) {
		if err := w.Connect(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		send := func(items int) {
			go SendAll(w.Server, make([]int, items), false, func([]int) Batch[anything] {
				return Batch[anything]{Script: anything{}, Waited: true}
			}, func(_ []int, o Outcome[anything]) {
				if o.Err != nil {
					t.Error(o.Err)
				}
			})
			synctest.Wait()
		}
		for range 2 {
			p.calls = 0
			for range maxShared + 1 {
				send(2)
			}
			send(1)
			if prompt := p.inFlight.Load(); prompt != maxShared+1 || p.calls != 1 {
				t.Errorf("%d calls are prompt and %d are not, want %d and 1", prompt, p.calls, maxShared+1)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
	})
}
