package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// TestMain makes the test binary a keeper, or what becomes the command, when it is started as one.
func TestMain(m *testing.M) {
	if code, was := keeper.Hidden(os.Args[1:]); was {
		os.Exit(code)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a keeper's
	os.Exit(m.Run())
}

// Also one that would run on without the lock does not begin without it.
func TestNothingRunsUnderALockThatIsLostAlready(t *testing.T) {
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
			o, err := parseRun([]string{"-q", "--on-lost", string(policy), "lost", "--", "true"})
			if err != nil {
				t.Fatal(err)
			}
			s := &session{runner: newRunner(o, nil, io.Discard, io.Discard), lease: lease}
			ran := filepath.Join(t.TempDir(), "ran")
			ended, err := s.run(keeper.Spec{
				Path: "/bin/sh", Args: []string{"sh", "-c", "touch $RAN"}, Env: append(os.Environ(), "RAN="+ran),
				Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, OnLost: policy, KillAfter: o.killAfter,
			})
			if err != nil || ended.Cause != keeper.CauseNotRun || !errors.Is(s.lost, holdfast.ErrReleased) {
				t.Errorf("ended with %+v, %v; lost: %v", ended, err, s.lost)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command ran")
			}
			exit := s.verdict(ended, s.lost)
			if want := holdfast.ErrReleased.Error() + "; the command was not run"; exit.code != exitLost || exit.Error() != want {
				t.Errorf("exit code %d, %q; want %d, %q", exit.code, exit.Error(), exitLost, want)
			}
		})
	}
}
