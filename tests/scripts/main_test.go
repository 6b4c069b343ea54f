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

// seeds returns the seeds of n random cases, with -short of a third as many, and those with which a test is known to find rare mutants.
func seeds(n int, also ...uint64) []uint64 {
	if testing.Short() {
		n /= 3
	}
	for i := range n {
		also = append(also, backend.Seed(i))
	}
	return also
}
