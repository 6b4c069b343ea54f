package scripts

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

func TestMain(m *testing.M) {
	backend.AtOnce(16) // the tests mostly wait for keys to expire
	os.Exit(m.Run())
}

// draws returns how many random cases a test tries: with -short, a third of n.
func draws(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// seeds returns the seeds of draws(n) random cases, and those with which a test is known to find rare mutants.
func seeds(n int, also ...uint64) []uint64 {
	for i := range draws(n) {
		also = append(also, backend.Seed(i))
	}
	return also
}
