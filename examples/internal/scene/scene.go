// Package scene plays the same scene with any resource. One holder of a lock is paused in the middle of its work, until
// its lease is over and another holder has done its own work. Then the first holder resumes and writes what it computed
// before.
package scene

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Account is the resource: a balance that begins at 100.
type Account interface {
	// Add reads the balance, calls think, and writes the balance increased by amount, under the lease.
	Add(ctx context.Context, lease *holdfast.Lease, amount int, think func()) error
	// Balance returns the balance.
	Balance(ctx context.Context) (int, error)
}

// Example makes an Account that refuses late holders.
type Example struct {
	// Create creates the account. It returns a location for Open, and a function to call at the end.
	Create func(rdb *redis.Client) (location string, close func(), err error)
	// Open opens the account, in each holder's process.
	Open func(rdb *redis.Client, location string) (Account, error)
}

// The environment variables with which this program starts itself as the first holder.
const (
	roleVariable     = "HOLDFAST_EXAMPLE_ROLE"
	redisVariable    = "HOLDFAST_EXAMPLE_REDIS"    // the server's address
	locationVariable = "HOLDFAST_EXAMPLE_LOCATION" // of the account
)

// ttl is short to keep the scene short.
const ttl = 2 * time.Second

// Main plays the scene. This process directs it and is the second holder.
func (e Example) Main() {
	log.SetFlags(0)
	if os.Getenv(roleVariable) != "" {
		if err := e.first(os.Getenv(redisVariable), os.Getenv(locationVariable)); err != nil {
			log.Fatal(err)
		}
		return
	}
	addr := flag.String("redis", "", "`address` of a Redis or Valkey server (default: an embedded server)")
	flag.Parse()
	if err := e.Play(os.Stdout, *addr); err != nil {
		log.Fatal(err)
	}
}

// Play plays the scene with the server at addr or, if addr is "", with an embedded one.
func (e Example) Play(out io.Writer, addr string) error {
	if !canPause {
		return errors.New("this system cannot pause a process")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if addr == "" {
		s, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		defer s.Close()
		addr = s.Addr()
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	location, remove, err := e.Create(rdb)
	if err != nil {
		return err
	}
	defer remove()
	account, err := e.Open(rdb, location)
	if err != nil {
		return err
	}

	first, err := start(ctx, addr, location)
	if err != nil {
		return err
	}
	defer first.end()
	if err := first.expect("thinking"); err != nil {
		return err
	}
	fmt.Fprintln(out, "The first holder has the lock and has read the balance, 100. It is about to add 10.")
	if err := pause(first.cmd.Process); err != nil {
		return err
	}
	fmt.Fprintln(out, "Its process is paused before it writes, for longer than its lease.")

	err = withLock(ctx, rdb, func(ctx context.Context, lease *holdfast.Lease) error {
		return account.Add(ctx, lease, 50, func() {})
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "The second holder acquires the lock and adds 50.")

	fmt.Fprintln(out, "The first holder resumes and writes.")
	if err := first.resume(); err != nil {
		return err
	}
	if err := first.expect("stale"); err != nil {
		return err
	}
	fmt.Fprintln(out, "The write is refused: the account has seen a later fence.")
	balance, err := account.Balance(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The balance is %d.\n", balance)
	return nil
}

// first is the first holder, in a process of its own. It prints the result of its write.
func (e Example) first(addr, location string) error {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	account, err := e.Open(rdb, location)
	if err != nil {
		return err
	}
	writeErr := errors.New("the lock was not acquired")
	_ = withLock(ctx, rdb, func(_ context.Context, lease *holdfast.Lease) error {
		writeErr = account.Add(ctx, lease, 10, func() {
			fmt.Println("thinking")
			bufio.NewScanner(os.Stdin).Scan() // returns after the pause
		})
		return writeErr
	}) // an error, since the lease is lost
	switch {
	case writeErr == nil:
		fmt.Println("written")
	case errors.Is(writeErr, fence.ErrStale):
		fmt.Println("stale")
	default:
		fmt.Println("error:", writeErr)
	}
	return nil
}

func withLock(ctx context.Context, rdb *redis.Client, f func(context.Context, *holdfast.Lease) error) error {
	locks, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		return err
	}
	defer locks.Close(ctx)
	return locks.Mutex("account", holdfast.TTL(ttl)).Do(ctx, f)
}

// holder is the first holder's process.
type holder struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(ctx context.Context, addr, location string) (*holder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &holder{cmd: exec.CommandContext(ctx, self)}
	h.cmd.Env = append(os.Environ(), roleVariable+"=first", redisVariable+"="+addr, locationVariable+"="+location)
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.lines = bufio.NewScanner(out)
	return h, h.cmd.Start()
}

// expect returns an error unless the holder's next line is want.
func (h *holder) expect(want string) error {
	if !h.lines.Scan() {
		return fmt.Errorf("the first holder ended before it printed %q", want)
	}
	if got := strings.TrimSpace(h.lines.Text()); got != want {
		return fmt.Errorf("the first holder printed %q, not %q", got, want)
	}
	return nil
}

// resume lets a paused holder continue and write.
func (h *holder) resume() error {
	if _, err := fmt.Fprintln(h.in, "go"); err != nil {
		return err
	}
	return resume(h.cmd.Process)
}

func (h *holder) end() {
	_ = h.cmd.Process.Kill() // works on a paused process, too
	_ = h.cmd.Wait()
}
