//go:build linux

package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
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
		machine.Undisturbed(t, func() error {
			said, err := exec.CommandContext(t.Context(), holdfast, "conformance", "--server", s.Addr(), "--", python[0], program).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%s: %w\n%s", bin.Name, err, said)
			}
			return err
		})
	}
}
