// Package scene plays the same scene on any resource: one holder of a lock is paused in
// the middle of its work, until its lease is over and another holder has done its own.
// Then it goes on, and writes what it computed before.
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

// Account is the resource: a balance, 100 at first.
type Account interface {
	// Add reads the balance, thinks, and writes what is more by amount: under
	// the lease.
	Add(ctx context.Context, lease *holdfast.Lease, amount int, think func()) error
	// Balance returns the balance.
	Balance(ctx context.Context) (int, error)
}

// Example is an example of an account that refuses late holders.
type Example struct {
	// Create creates the account. place is where Open finds it, close what to do at the end.
	Create func(rdb *redis.Client) (place string, close func(), err error)
	// Open opens it, in each holder's process.
	Open func(rdb *redis.Client, place string) (Account, error)
}

// The first holder is this program again: with its part, the server's address and the
// place of the account.
const (
	partVariable  = "HOLDFAST_EXAMPLE_PART"
	redisVariable = "HOLDFAST_EXAMPLE_REDIS"
	placeVariable = "HOLDFAST_EXAMPLE_PLACE"
)

// ttl is short, so that the scene is.
const ttl = 2 * time.Second

// Main plays the scene, in which this process is the director and the second holder.
func (e Example) Main() {
	log.SetFlags(0)
	if os.Getenv(partVariable) != "" {
		if err := e.first(os.Getenv(redisVariable), os.Getenv(placeVariable)); err != nil {
			log.Fatal(err)
		}
		return
	}
	addr := flag.String("redis", "", "address of a Redis or Valkey server to use, instead of an embedded one")
	flag.Parse()
	if err := e.Play(os.Stdout, *addr); err != nil {
		log.Fatal(err)
	}
}

// Play plays the scene with the server at addr; "" is an embedded one.
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
	place, remove, err := e.Create(rdb)
	if err != nil {
		return err
	}
	defer remove()
	account, err := e.Open(rdb, place)
	if err != nil {
		return err
	}

	first, err := start(ctx, addr, place)
	if err != nil {
		return err
	}
	defer first.end()
	if err := first.expect("thinking"); err != nil {
		return err
	}
	fmt.Fprintln(out, "The first holder has the lock and has read the balance of 100. It is to add 10.")
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
	fmt.Fprintln(out, "The second holder has got the lock, and adds 50.")

	fmt.Fprintln(out, "The first goes on, and writes.")
	if err := first.goOn(); err != nil {
		return err
	}
	if err := first.expect("stale"); err != nil {
		return err
	}
	fmt.Fprintln(out, "It is refused: a later fence has been there.")
	balance, err := account.Balance(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The balance is %d.\n", balance)
	return nil
}

// first is the first holder, in a process of its own. It says what becomes of its write.
func (e Example) first(addr, place string) error {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	account, err := e.Open(rdb, place)
	if err != nil {
		return err
	}
	wrote := errors.New("there was no lock to be had")
	_ = withLock(ctx, rdb, func(_ context.Context, lease *holdfast.Lease) error {
		wrote = account.Add(ctx, lease, 10, func() {
			fmt.Println("thinking")
			bufio.NewScanner(os.Stdin).Scan() // by then it has been paused
		})
		return wrote
	}) // the release finds the lock lost
	switch {
	case wrote == nil:
		fmt.Println("written")
	case errors.Is(wrote, fence.ErrStale):
		fmt.Println("stale")
	default:
		fmt.Println("error:", wrote)
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

func start(ctx context.Context, addr, place string) (*holder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &holder{cmd: exec.CommandContext(ctx, self)}
	h.cmd.Env = append(os.Environ(), partVariable+"=first", redisVariable+"="+addr, placeVariable+"="+place)
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

// expect requires what the holder says next.
func (h *holder) expect(want string) error {
	if !h.lines.Scan() {
		return fmt.Errorf("the first holder has ended; %q was expected", want)
	}
	if got := strings.TrimSpace(h.lines.Text()); got != want {
		return fmt.Errorf("the first holder says %q; %q was expected", got, want)
	}
	return nil
}

func (h *holder) goOn() error {
	if _, err := fmt.Fprintln(h.in, "go"); err != nil {
		return err
	}
	return resume(h.cmd.Process)
}

func (h *holder) end() {
	_ = h.cmd.Process.Kill() // which ends a paused one, too
	_ = h.cmd.Wait()
}
