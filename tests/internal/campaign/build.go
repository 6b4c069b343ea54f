package campaign

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Build builds the worker that the configuration asks for. Several campaigns can use it as their Binary until
// remove is called.
func Build(ctx context.Context, cfg Config) (binary string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "campaign")
	if err != nil {
		return "", nil, err
	}
	binary = filepath.Join(dir, "worker")
	args := slices.Concat([]string{"build", "-o", binary}, cfg.BuildArgs, []string{cmp.Or(cfg.Worker, workerPackage)})
	cmd := exec.CommandContext(ctx, "go", args...)
	_, file, _, _ := runtime.Caller(0)
	cmd.Dir = filepath.Dir(file) // a campaign tests the checkout that it is part of
	if text, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return binary, func() { _ = os.RemoveAll(dir) }, nil
}
