//go:build unix

// Package processes tests locks between processes, which are killed and paused. The
// test binary runs itself as a worker.
package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// roleVariable makes the test binary a worker instead of running tests.
const roleVariable = "HOLDFAST_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "obey":
		obey(os.Args[1], os.Stdin, os.Stdout)
	case "mortal":
		mortal(os.Args[1:])
	default:
		backend.AtOnce(10) // the tests mostly wait
		os.Exit(m.Run())
	}
}

// patient has a timeout that a machine which stands still for two seconds does not reach.
var patient = holdfast.Config{CommandTimeout: 4 * time.Second}

func dial(addr string) *holdfast.Client {
	c, err := holdfastgoredis.New(redis.NewClient(&redis.Options{Addr: addr}), &patient)
	if err != nil {
		panic(err)
	}
	return c
}

// excused reports whether the release of a lease that was granted then may fail like this: the process was held
// up, so the answer was missed, or the lease expired. A lease that is lost before its deadline is not excused.
func excused(err error, lease *holdfast.Lease, granted time.Time) bool {
	if errors.Is(err, holdfast.ErrAmbiguous) {
		return true
	}
	return errors.Is(err, holdfast.ErrLost) && time.Now().After(lease.Deadline()) && machine.HeldUp(granted) > 300*time.Millisecond
}

// obey carries out one command a line, and answers each with a line:
//
//	acquire NAME TTL [OWNER]   "granted FENCE" or "error ..."
//	err                        "held" or "lost ..."
//	release                    "released" or "error ..."
func obey(addr string, in io.Reader, out io.Writer) {
	c := dial(addr)
	var lease *holdfast.Lease
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); words[0] {
		case "acquire":
			ttl, err := time.ParseDuration(words[2])
			must(err)
			l := c.Mutex(words[1], holdfast.TTL(ttl))
			if len(words) == 4 {
				l = c.OwnerMutex(words[1], words[3], holdfast.TTL(ttl))
			}
			if lease, err = l.Acquire(context.Background()); err != nil {
				fmt.Fprintln(out, "error", err)
				continue
			}
			fmt.Fprintln(out, "granted", lease.Fence())
		case "err":
			if err := lease.Err(); err != nil {
				fmt.Fprintln(out, "lost", err)
				continue
			}
			fmt.Fprintln(out, "held")
		case "release":
			if err := lease.Release(context.Background()); err != nil {
				fmt.Fprintln(out, "error", err)
				continue
			}
			fmt.Fprintln(out, "released")
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

type worker struct {
	*child.Dialogue
	t *testing.T
}

func newWorker(t *testing.T, addr string) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], addr)
	cmd.Env = append(os.Environ(), roleVariable+"=obey")
	cmd.Stderr = os.Stderr
	return &worker{child.Talk(t, cmd), t}
}

func (w *worker) send(command string) {
	w.t.Helper()
	w.Say(w.t, command)
}

// answer waits for the next answer, and requires that it begins with want.
func (w *worker) answer(want string) string {
	w.t.Helper()
	got := w.Hear(w.t, want, time.Minute)
	if !strings.HasPrefix(got, want) {
		w.t.Fatalf("the worker says %q; want %q", got, want)
	}
	return got
}

// fence returns the fence of an answer "granted FENCE".
func (w *worker) fence() (n uint64) {
	w.t.Helper()
	expect.OK(w.t, expect.ErrOf(fmt.Sscanf(w.answer("granted"), "granted %d", &n)))
	return n
}

func (w *worker) pid() int { return w.Cmd.Process.Pid }

func (w *worker) signal(s syscall.Signal) {
	w.t.Helper()
	expect.OK(w.t, w.Cmd.Process.Signal(s))
}

// pause stops the worker, and returns when it has stopped: until then it may read a message.
func (w *worker) pause() {
	w.t.Helper()
	w.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(w.Cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		w.t.Fatalf("the worker has not stopped: %v, %#x", err, status)
	}
}
