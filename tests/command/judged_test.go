package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
)

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
