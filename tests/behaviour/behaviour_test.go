// Package behaviour tests what a mutex does when nothing goes wrong, and what it
// refuses, on the embedded server and on every real one.
package behaviour

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

func TestMain(m *testing.M) {
	backend.AtOnce(32)
	os.Exit(m.Run())
}

// queue acquires the lock in a goroutine, and returns when that many processes wait on the server.
func queue(t testing.TB, l *holdfast.Lock, waiters int) <-chan *holdfast.Lease {
	t.Helper()
	leases := backend.Start(t, l)
	backend.Waiters(t, l, waiters)
	return leases
}
