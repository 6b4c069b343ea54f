package faults

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

func TestMain(m *testing.M) {
	backend.AtOnce(40) // the tests mostly wait
	os.Exit(m.Run())
}
