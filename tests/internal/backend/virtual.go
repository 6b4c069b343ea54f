package backend

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Virtual runs f on the embedded server in a bubble of testing/synctest. The bubble's time advances as soon as
// everybody waits for it, so no wait takes long and nothing is late on a slow machine. With rueidis and
// valkey-go, whose goroutines outlive a bubble, it skips the test.
func Virtual(t *testing.T, f func(t *testing.T, b *Backend)) {
	t.Helper()
	if Pipelines(t) {
		t.Skipf("SKIPPED: %s leaves goroutines behind, and has no virtual time", Adapter(t))
	}
	stopBootInBubbles()
	synctest.Test(t, func(t *testing.T) { f(t, Embedded(t)) })
}

// embedded is Virtual, but with rueidis and valkey-go it runs f in real time.
func embedded(t *testing.T, f func(t *testing.T, b *Backend)) {
	t.Helper()
	if Pipelines(t) {
		f(t, Embedded(t))
		return
	}
	Virtual(t, f)
}

// stopBootInBubbles makes the library's boot clock stand still in bubbles. The machine's own boot clock would
// run on there while virtual time stands still. The clock is replaced only once, because tests in and out of
// bubbles run at the same time.
var stopBootInBubbles = sync.OnceFunc(func() {
	clock.SetBoot(func() time.Duration {
		if virtualTime() {
			return 0
		}
		return bootTime()
	})
})

// virtualTime reports whether the caller is in a bubble, whose time starts in the year 2000.
func virtualTime() bool { return time.Now().Year() < 2020 }
