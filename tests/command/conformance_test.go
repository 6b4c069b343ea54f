package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// verdicts is what conformance -json reports.
type verdicts struct {
	OK       bool
	Passed   int
	Skipped  int
	Verdicts []struct{ Scenario, Problem string }
}

// judge runs conformance on that client with a flaw.
func judge(t *testing.T, flaw string, flags ...string) (code int, v verdicts, err error) {
	t.Helper()
	uses(t)
	program, err := os.Executable()
	if err != nil {
		return 0, v, err
	}
	cmd := exec.CommandContext(t.Context(), "conformance", append(append([]string{"-json"}, flags...), program, judgedArg, flaw)...)
	said, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return 0, v, err
	}
	if err := json.Unmarshal(said, &v); err != nil {
		return code, v, fmt.Errorf("exit code %d, %q: %w", code, said, err)
	}
	return code, v, nil
}

// Holdfast's own client passes all scenarios on the embedded server, whether concurrent commands have connections of their own or share
// one. What a client does not say that it implements is neither passed nor failed.
func TestASoundClientConforms(t *testing.T) {
	t.Parallel()
	for flaw, least := range map[string]int{"none": 30, "multiplexed": 30, "mutexes": 10} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			machine.Undisturbed(t, func() error {
				code, v, err := judge(t, flaw, "-for", "1s")
				skips := v.Skipped > 0
				if err == nil && (code != 0 || !v.OK || v.Passed+v.Skipped != len(v.Verdicts) || v.Passed < least || skips != (flaw == "mutexes")) {
					err = fmt.Errorf("exit code %d: %+v", code, v)
				}
				return err
			})
		})
	}
}

// A sound client may lose the lock once in the competition: that happens if the machine stands still.
func TestAClientMayLoseTheLock(t *testing.T) {
	t.Parallel()
	machine.Undisturbed(t, func() error {
		code, v, err := judge(t, "robbed", "-only", "competition", "-for", "500ms")
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %+v", code, v)
		}
		return err
	})
}

// Every scenario finds the clients that it is for.
func TestFlawedClientsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flaw, scenario, problem string }{
		{"plain", "value", `has a value of another form: mine`},
		{"greedy", "exclusion", `answers "granted 9000000000000000000" to "try \d+", and not held`},
		{"counts", "fences", `the fence 1 of the client's try follows`},
		{"greedy", "young-lock", `answers "granted 9000000000000000000" to "try \d+", and not held`},
		{"naive", "barging", `answers "granted 1" to "try \d+", and not held`},
		{"deletes", "hand-over", `does not hand the lock over`},
		{"polls", "queue", `in vain for 1 waiters in the lock's queue`},
		{"chatty", "quiet", `the client sent \d+ requests and \d+ PINGs`},
		{"unrenewed", "renewal", `answers no to "holds", and not yes`},
		{"believes", "theft", `client 1 still answers yes to holds`},
		{"deletes", "theft", `released a lock that another program has`},
		{"believes", "outage", `answers yes to "holds", and not no`},
		{"naive", "lost-reply", `takes its own lock for another's`},
		{"mute", "dead-waiter", `did not print granted within`},
		{"counts", "competition", `the fence 1 of .* follows`},
		{"unknown", "rw-sharing", `says that it implements rwlock; the words are rwmutex, semaphore`},
		{"alone", "semaphore", `says held, and not granted`},
		{"counts", "semaphore", `the fences of three permits are`},
		{"greedy", "semaphore", `answers "granted 9000000000000000000" to "try-permit \d+", and not held`},
		{"alone", "rw-sharing", `says held, and not granted`},
		{"deletes", "rw-sharing", `Holdfast's TryAcquire as a writer gets: <nil>`},
		{"shares", "rw-exclusion", `Holdfast's TryAcquire as a reader gets: <nil>`},
		{"counts", "rw-fences", `the fence 1 of the client's try-read follows`},
		{"greedy", "rw-queue", `answers "granted 9000000000000000000" to "try-read \d+", and not held`},
		{"polls", "rw-queue", `in vain for 1 waiters in the lock's queue`},
		{"chatty", "rw-quiet", `the client sent \d+ requests and \d+ PINGs`},
		{"unrenewed", "rw-renewal", `answers no to "holds", and not yes`},
		{"believes", "rw-outage", `answers yes to "holds", and not no`},
		{"mute", "rw-expiry", `did not print granted within`},
		{"hasty", "rw-expiry", `acquire-\w+ is granted to another client within [1-4]\.\d+s of the try-\w+ of a client that was killed`},
		{"shares", "rw-competition", `two had the lock at once|the fence \d+ of .* follows`},
		{"counts", "rw-competition", `the fence 1 of .* follows`},
	} {
		t.Run(c.flaw+" "+c.scenario, func(t *testing.T) {
			t.Parallel()
			tries := 1
			if strings.HasSuffix(c.scenario, "competition") || c.flaw == "hasty" {
				tries = 20 // the flaw shows only if clients meet, or in time
			}
			machine.Undisturbed(t, func() error {
				var code int
				var v verdicts
				var err error
				for n := 0; n == 0 || err == nil && v.OK && n < tries; n++ {
					code, v, err = judge(t, c.flaw, "-only", c.scenario, "-for", "500ms", "-answer", "5s")
				}
				switch {
				case err != nil:
					return err
				case code != 1 || v.OK || len(v.Verdicts) != 1 || !regexp.MustCompile(c.problem).MatchString(v.Verdicts[0].Problem):
					return fmt.Errorf("exit code %d: %+v", code, v)
				}
				return nil
			})
		})
	}
}

// judgedArg makes the test's program a client for conformance to judge: judgedArg FLAW HOST:PORT NAME.
const judgedArg = "__judged"

// judged is that client: Holdfast's own, with one flaw or none.
func judged(flaw, addr, name string) (code int) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	cfg := &holdfast.Config{Logger: slog.New(slog.DiscardHandler)}
	locks, err := holdfastgoredis.New(rdb, cfg)
	if flaw == "multiplexed" { // no flaw: all commands share a connection
		locks, err = holdfastrueidis.New(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := &client{flaw: flaw, rdb: rdb, locks: locks, name: name}
	if c.flaw == "unknown" {
		fmt.Println("ready rwlock")
	} else if c.flaw == "mutexes" {
		fmt.Println("ready")
	} else {
		fmt.Println("ready rwmutex semaphore")
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answer, err := c.answer(context.Background(), strings.Fields(in.Text()))
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
	return 0
}

type client struct {
	flaw  string
	rdb   *redis.Client
	locks *holdfast.Client
	name  string
	lease *holdfast.Lease

	releases int
}

func (c *client) key() string { return "holdfast:{" + c.name + "}" }

func (c *client) answer(ctx context.Context, words []string) (string, error) {
	switch words[0] {
	case "try", "acquire", "try-read", "acquire-read", "try-write", "acquire-write", "try-permit", "acquire-permit":
		ms, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		if len(words) > 2 {
			within, err := strconv.Atoi(words[2])
			if err != nil {
				return "", err
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(within)*time.Millisecond)
			defer cancel()
		}
		return c.take(ctx, words[0], time.Duration(ms)*time.Millisecond)
	case "release":
		if c.flaw == "deletes" || c.lease == nil {
			return "released", c.rdb.Del(ctx, c.key()).Err()
		}
		c.releases++
		if c.flaw == "robbed" && c.releases == 2 {
			if err := c.rdb.Del(ctx, c.key()).Err(); err != nil {
				return "", err
			}
		}
		if err := c.lease.Release(ctx); errors.Is(err, holdfast.ErrLost) {
			return "lost", nil
		} else if err != nil {
			return "", err
		}
		return "released", nil
	case "holds":
		if c.flaw == "believes" || c.lease != nil && c.lease.Err() == nil {
			return "yes", nil
		}
		return "no", nil
	}
	return "", fmt.Errorf("there is no command %q", words[0])
}

func (c *client) take(ctx context.Context, verb string, ttl time.Duration) (answer string, err error) {
	if c.flaw == "plain" || c.flaw == "naive" {
		return c.set(ctx, ttl)
	}
	options := holdfast.Options(holdfast.TTL(ttl))
	if c.flaw == "unrenewed" {
		options = holdfast.Options(options, holdfast.NoRenew())
	}
	command, side, _ := strings.Cut(verb, "-")
	theJob := command == "try"
	lock := c.locks.Mutex(c.name, options)
	switch {
	case side == "permit" && c.flaw == "alone":
		lock = c.locks.Semaphore(c.name, 2, options).Permits(2)
	case side == "permit":
		lock = c.locks.Semaphore(c.name, 2, options).Permits(1)
	case side == "read" && c.flaw != "alone", side == "write" && c.flaw == "shares":
		lock = c.locks.RWMutex(c.name, options).Reader()
	case side != "":
		lock = c.locks.RWMutex(c.name, options).Writer()
	}
	if c.flaw == "chatty" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				c.rdb.Ping(ctx)
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}
	switch {
	case theJob:
		c.lease, err = lock.TryAcquire(ctx)
	case c.flaw == "polls":
		for c.lease, err = lock.TryAcquire(ctx); errors.Is(err, holdfast.ErrHeld); c.lease, err = lock.TryAcquire(ctx) {
			time.Sleep(50 * time.Millisecond)
		}
	case c.flaw == "hasty":
		c.lease, err = c.takeFromDead(ctx, lock)
	default:
		c.lease, err = lock.Acquire(ctx)
	}
	switch {
	case errors.Is(err, holdfast.ErrHeld) && c.flaw == "greedy":
		return "granted 9000000000000000000", nil
	case errors.Is(err, holdfast.ErrHeld):
		return "held", nil
	case err != nil:
		return "", err
	case c.flaw == "mute" && !theJob:
		select {} // until it is killed
	case c.flaw == "counts":
		return "granted 1", nil
	}
	return fmt.Sprint("granted ", c.lease.Fence()), nil
}

// takeFromDead waits for 2 s, and then takes the lock as if its holder were dead.
func (c *client) takeFromDead(ctx context.Context, lock *holdfast.Lock) (*holdfast.Lease, error) {
	waits, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	lease, err := lock.Acquire(waits)
	if errors.Is(err, context.DeadlineExceeded) {
		if err := c.rdb.Del(ctx, c.key()).Err(); err != nil {
			return nil, err
		}
		return lock.Acquire(ctx)
	}
	return lease, err
}

// set does what a program does that knows only SET. If it is naive, the value is right, and a lost reply makes it ask again.
func (c *client) set(ctx context.Context, ttl time.Duration) (string, error) {
	value := "mine"
	if c.flaw == "naive" {
		value = "hf2:AAAAAAAAAAAAAAAAAAAAAA:1:1:0:{\"o\":\"naive\"}"
	}
	switch is, err := c.rdb.SetNX(ctx, c.key(), value, ttl).Result(); {
	case err != nil:
		return "", err
	case !is:
		return "held", nil
	}
	return "granted 1", nil
}
