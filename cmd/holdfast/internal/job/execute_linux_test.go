package job

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// TestMain makes the test binary a keeper, or what becomes the command, if it is started as one.
func TestMain(m *testing.M) {
	if code, ok := keeper.Main(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a keeper's
	os.Exit(m.Run())
}

// Even a command that would continue without the lock does not begin without it.
func TestNothingRunsUnderALostLock(t *testing.T) {
	for _, policy := range []keeper.Policy{keeper.Terminate, keeper.Kill, keeper.Notify, keeper.Ignore} {
		t.Run(string(policy), func(t *testing.T) {
			redis := redis.NewClient(&redis.Options{Dialer: holdfasttest.Run(t).Dial})
			defer redis.Close()
			client, err := holdfastgoredis.New(redis, nil)
			if err != nil {
				t.Fatal(err)
			}
			lease, err := client.Mutex("lost").Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			ran := filepath.Join(t.TempDir(), "ran")
			t.Setenv("RAN", ran)
			r := &Run{Name: "lost", Console: console.New(io.Discard, console.Quiet), Streams: Streams{os.Stdin, os.Stdout, os.Stderr}}
			j := &Job{TTL: 15 * time.Second, Command: Command{
				Args: []string{"touch $RAN"}, Shell: true, OnLost: policy, KillAfter: 5 * time.Second, LostCode: exitcode.Lost,
			}}
			if exit := j.Prepare(); exit != nil {
				t.Fatal(exit)
			}
			x := &execution{run: r, job: j, lease: lease}
			ended, err := x.execute(os.Environ())
			if err != nil || ended.Cause != keeper.CauseNotRun || !errors.Is(x.lost, holdfast.ErrReleased) {
				t.Errorf("ended with %+v, %v; lost: %v", ended, err, x.lost)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command ran")
			}
			exit := r.verdict(j, ended, x.lost)
			if want := holdfast.ErrReleased.Error() + "; the command was not run"; exit.Code != exitcode.Lost || exit.Error() != want {
				t.Errorf("exit code %d, %q; want %d, %q", exit.Code, exit.Error(), exitcode.Lost, want)
			}
		})
	}
}
