//go:build linux

package interop

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The client in examples/python, which was written from docs/PROTOCOL.md, passes all scenarios of holdfast conformance.
func TestTheClientInPythonConforms(t *testing.T) {
	t.Parallel()
	python := setUp(t, "python")
	program, err := filepath.Abs("../../examples/python/conform.py")
	if err != nil {
		t.Fatal(err)
	}
	holdfast := filepath.Join(t.TempDir(), "holdfast")
	if said, err := exec.Command("go", "build", "-o", holdfast, "../../cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		judge := func() ([]byte, error) {
			return exec.CommandContext(t.Context(), holdfast, "conformance", "--server", s.Addr(), "--", python[0], program).CombinedOutput()
		}
		said, err := judge()
		// Leases of scenarios last for a few seconds: if many want the processors, a client may not get one in time.
		for n := 1; err != nil && n < 3; n++ {
			t.Logf("%s: once more: %v\n%s", bin.Name, err, said)
			said, err = judge()
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", bin.Name, err, said)
		}
	}
}
