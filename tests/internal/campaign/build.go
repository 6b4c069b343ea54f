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
	return buildWorker(ctx, cmp.Or(cfg.Worker, workerPackage), cfg.BuildArgs)
}

// buildWorker builds the processes that use locks.
func buildWorker(ctx context.Context, pkg string, args []string) (binary string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "campaign")
	if err != nil {
		return "", nil, err
	}
	binary = filepath.Join(dir, "worker")
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", binary}, args, []string{pkg})...)
	cmd.Dir = sources()
	if text, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return binary, func() { _ = os.RemoveAll(dir) }, nil
}

// sources returns the folder of this package's source: a campaign tests the checkout that it is part of.
func sources() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// revision names the code under test.
func revision() string {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = sources()
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	head := git("rev-parse", "--short=12", "HEAD")
	if head == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		head += "+"
	}
	return head
}
