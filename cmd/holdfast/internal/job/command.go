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

// Job is a command, and the terms on which it runs under a lease.
type Job struct {
	keeper.Spec // Path, Env and the streams are set when the job is prepared and run

	Shell    bool          // Args are joined and given to sh -c
	LostCode int           // the exit code if the command was ended because the lock was lost
	TTL      time.Duration // of the lease
	MinHold  time.Duration // how long the lock is kept at least, from the start of the command
}

// Prepare finds the program, and checks that a keeper can work here. It is called before anything is locked.
func (j *Job) Prepare() *exitcode.Error {
	if err := j.find(); err != nil {
		return exitcode.Of(err)
	}
	if err := keeper.Check(); err != nil {
		return &exitcode.Error{Code: exitcode.System, Err: err}
	}
	return nil
}

func (j *Job) find() error {
	if j.Shell {
		j.Args = []string{"sh", "-c", strings.Join(j.Args, " ")}
		j.Path = "/bin/sh"
		return nil
	}
	var err error
	if j.Path, err = exec.LookPath(j.Args[0]); err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrDot) {
		j.Path, err = findOutsideWorkingDirectory(j.Args[0])
		return err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitcode.Errorf(exitcode.NotFound, "%s: command not found", j.Args[0])
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	return exitcode.Errorf(exitcode.NotRunnable, "%s: cannot be executed: %w", j.Args[0], err)
}

// findOutsideWorkingDirectory searches the absolute directories of PATH. A relative one depends on the working directory, where other
// users may be able to write; an empty element of PATH means that directory, most often by mistake.
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

// environment returns the command's environment: env with the facts about the lock, and without the server's URL, which is a secret
// (connect.Named refuses a holdfast in the job that is not given a URL). With several locks, HOLDFAST_FENCE is the highest of their fences.
// environment adds fences to outer, the result of outerFences.
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

// outerFences returns the fences of the locks of all jobs that this process is in, which environment told the innermost of them.
func outerFences() map[string]uint64 {
	all := map[string]uint64{}
	if fence, err := strconv.ParseUint(os.Getenv("HOLDFAST_FENCE"), 10, 64); err == nil {
		all[os.Getenv("HOLDFAST_NAME")] = fence
	}
	var several map[string]uint64
	_ = json.Unmarshal([]byte(os.Getenv("HOLDFAST_FENCES")), &several) // it is not set if there is only one
	maps.Copy(all, several)
	return all
}
