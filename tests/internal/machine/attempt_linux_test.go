package machine

import (
	"slices"
	"testing"
)

// An attempt has a context and cleanups of its own. FailNow ends only the attempt, also if a goroutine that it
// started calls it.
func TestAnAttemptIsATestOfItsOwn(t *testing.T) {
	var order []string
	err := try(t, 2, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() {
			order = append(order, "last")
			if t.Context().Err() == nil {
				t.Error("the context outlives the attempt")
			}
		})
		done, fatal := make(chan struct{}), t.Fatalf
		go func() {
			defer close(done)
			fatal("from %s", "a goroutine")
		}()
		<-done
		t.Fatal("at the end")
		order = append(order, "never")
	})
	if err == nil || err.Error() != "from a goroutine\nat the end" {
		t.Errorf("it fails with %q", err)
	}
	if !slices.Equal(order, []string{"last", "first"}) {
		t.Errorf("the cleanups ran as %q", order)
	}
	if err := try(t, 1, func(t testing.TB) { t.Log(t.Name()) }); err != nil || t.Failed() {
		t.Errorf("one that does not fail: %v", err)
	}
}
