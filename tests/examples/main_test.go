package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/race"
)

// shared says how to remove what the tests share.
var shared struct {
	mu     sync.Mutex
	remove []func() error
}

func removeAtEnd(f func() error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.remove = append(shared.remove, f)
}

func TestMain(m *testing.M) {
	backend.AtOnce(8) // they wait for leases to end
	code := m.Run()
	for _, remove := range shared.remove {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// folder builds the programs in examples/ and returns the folder that they are in.
var folder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-examples-")
	if err != nil {
		return "", err
	}
	removeAtEnd(func() error { return os.RemoveAll(dir) })
	if err := inputs.In(filepath.Join("..", "..")); err != nil { // READMEs and documents, too
		return "", err
	}
	args := []string{"build", "-o", dir}
	if race.Detector {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./...")...)
	build.Dir = filepath.Join("..", "..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return dir, nil
})
