package backend

import (
	"bytes"
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"
)

// Virtual runs f on the embedded server in a bubble of testing/synctest. The bubble's time advances as soon as
// everybody waits for it, so no wait takes long and nothing is late on a slow machine. With rueidis and
// valkey-go, whose goroutines outlive a bubble, it skips the test.
func Virtual(t *testing.T, f func(t *testing.T, b *Backend)) {
	t.Helper()
	if Pipelines(t) {
		t.Skipf("SKIPPED: %s leaves goroutines behind, and has no virtual time", Adapter(t))
	}
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

var bubble = regexp.MustCompile(`^goroutine \d+ \[.*(synctest bubble \d+\])`)

// Goroutines counts the goroutines of the caller's bubble, or of the process if the caller is in no bubble. Goroutines outside a
// bubble come and go in real time, and a minute in the bubble takes milliseconds of that.
func Goroutines() int {
	stacks := make([]byte, 16<<20)
	own := bubble.FindSubmatch(stacks[:runtime.Stack(stacks, false)])
	if own == nil {
		return runtime.NumGoroutine()
	}
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], own[1])
}
