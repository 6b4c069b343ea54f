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
