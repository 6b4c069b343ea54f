package job

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// Command is what runs under the lock.
type Command struct {
	Args       []string
	Shell      bool          // Args are joined and given to sh -c
	OnLost     keeper.Policy // what happens to it if the lock is lost
	KillAfter  time.Duration // from TERM to KILL
	MaxRuntime time.Duration // 0: no bound
	LostCode   int           // the exit code if it was ended because the lock was lost

	path string // of the program
}

// find finds the program.
func (c *Command) find() error {
	if c.Shell {
		c.Args = []string{"sh", "-c", strings.Join(c.Args, " ")}
		c.path = "/bin/sh"
		return nil
	}
	var err error
	if c.path, err = exec.LookPath(c.Args[0]); err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrDot) {
		c.path, err = findOutsideWorkingDirectory(c.Args[0])
		return err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitcode.Errorf(exitcode.NotFound, "%s: command not found", c.Args[0])
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	return exitcode.Errorf(exitcode.NotRunnable, "%s: cannot be executed: %w", c.Args[0], err)
}

// findOutsideWorkingDirectory searches the absolute directories of PATH. Others depend on the working directory, which
// anybody may be able to write to; an empty element of PATH means that directory, most often by mistake.
func findOutsideWorkingDirectory(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exitcode.Errorf(exitcode.NotFound, "%s: command not found, except in the working directory, "+
		"through an empty or relative element of PATH: use .%c%[1]s if that is what you mean", name, filepath.Separator)
}

// environment returns the command's environment: with what it may know about its lock, and without the URL of the
// server, which is a secret: connect.Named refuses a holdfast in the job that is not given one. It has the same prefix as this
// one. With several locks, HOLDFAST_FENCE is the highest of their fences. environment adds fences to outer,
// which is what outerFences returns.
func environment(env []string, r *Run, ttl time.Duration, outer, fences map[string]uint64) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "HOLDFAST_REDIS", "HOLDFAST_PREFIX", "HOLDFAST_NAME", "HOLDFAST_FENCE", "HOLDFAST_FENCES", "HOLDFAST_TTL_MS":
			return true
		}
		return name == r.Servers.Source
	})
	fence := slices.Max(slices.Collect(maps.Values(fences)))
	env = append(env,
		"HOLDFAST_NAME="+r.Name,
		"HOLDFAST_FENCE="+strconv.FormatUint(fence, 10),
		"HOLDFAST_TTL_MS="+strconv.FormatInt(ttl.Milliseconds(), 10))
	if r.Prefix != "" {
		env = append(env, "HOLDFAST_PREFIX="+r.Prefix)
	}
	maps.Copy(outer, fences)
	if len(outer) > 1 {
		text, _ := json.Marshal(outer) // never fails for names and numbers
		env = append(env, "HOLDFAST_FENCES="+string(text))
	}
	return env
}

// outerFences returns the fences of the locks of all jobs that this process is in: what environment told the innermost.
func outerFences() map[string]uint64 {
	all := map[string]uint64{}
	if fence, err := strconv.ParseUint(os.Getenv("HOLDFAST_FENCE"), 10, 64); err == nil {
		all[os.Getenv("HOLDFAST_NAME")] = fence
	}
	var several map[string]uint64
	_ = json.Unmarshal([]byte(os.Getenv("HOLDFAST_FENCES")), &several) // which is not set if there is one
	maps.Copy(all, several)
	return all
}
