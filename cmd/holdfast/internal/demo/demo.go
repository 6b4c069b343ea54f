// Package demo shows locks at work, and checks them: processes race, one is
// killed, one is paused, and what they recorded is held against what was
// promised.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Opener makes a client for the server that a URL names.
type Opener func(url string) (redis.UniversalClient, error)

// Config says how to run the demo.
type Config struct {
	URL     string // of a Redis server; "" starts one inside this process
	Open    Opener
	Workers int
	Seed    uint64 // decides who wins, and who meets with an accident
	NoLock  bool   // leave the lock out, to see what it prevents
	Out     io.Writer
	JSON    bool // print nothing but the summary, as one JSON object
}

// The bounds of Config.Workers. Two are needed to take over from each other.
const (
	MinWorkers = 2
	MaxWorkers = 32
)

// ttl is the lease time of the demo's locks: short, so that nobody has to wait
// long for the end of a lease.
const ttl = 1500 * time.Millisecond

// longest bounds the whole demo. What has not happened by then, a check misses.
const longest = 26 * time.Second

// FailedError says which invariants did not hold.
type FailedError struct {
	Failed []Check
	Of     int // so many were checked
}

func (e *FailedError) Error() string {
	names := make([]string, len(e.Failed))
	for i, c := range e.Failed {
		names[i] = c.Name
	}
	return fmt.Sprintf("%d of %d checks failed: %s", len(e.Failed), e.Of, strings.Join(names, "; "))
}

// Run runs the demo. It returns a *FailedError when an invariant did not hold;
// ctx's cause when that ended; otherwise what kept the demo from running. In all
// cases its processes are gone then, and its keys deleted.
func Run(ctx context.Context, cfg Config) (err error) {
	// Workers are tied to the thread that starts them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	url, where := cfg.URL, ""
	if url == "" {
		server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			return fmt.Errorf("the embedded server: %w", err)
		}
		defer server.Close()
		url, where = "redis://"+server.Addr(), "embedded server"
	}
	rdb, err := cfg.Open(url)
	if err != nil {
		return err
	}
	defer rdb.Close()
	prefix := newPrefix()
	name, err := tryOut(ctx, rdb, prefix)
	if err != nil {
		return interrupted(ctx, err)
	}
	if where == "" {
		where = name
	}
	defer func() { err = errors.Join(err, deleteKeys(ctx, rdb, prefix)) }()

	d := newDirector(cfg, newStage(cfg), newCrew(brief{
		URL: url, Prefix: prefix, TTL: ttl, Seed: cfg.Seed, Locked: !cfg.NoLock,
	}))
	d.stage.open(cfg, where)
	err = d.play(ctx)
	d.stage.close()
	d.crew.disband(func(e event) { d.history.events = append(d.history.events, e) })
	if err == nil {
		err = d.readRegisters(ctx, rdb)
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	return report(cfg, summarize(cfg, where, &d.history, now().sub(d.begun)))
}

// interrupted returns why ctx ended, if it has: errors that followed from that
// are not worth telling.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// newPrefix returns a prefix for keys that no other run has. It begins like
// other keys of Holdfast, so that one ACL rule covers all.
func newPrefix() string {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	return "holdfast:demo:" + hex.EncodeToString(id[:]) + ":"
}

// dataKey is the key of the register that a lock guards, in the lock's Cluster
// slot.
func dataKey(prefix, lock string) string { return prefix + "data:{" + lock + "}" }

// tryOut takes and releases the locks once: a server that does not do shows
// before any process is started. It returns what the server calls itself.
func tryOut(ctx context.Context, rdb redis.UniversalClient, prefix string) (name string, err error) {
	d, err := holdfastgoredis.NewDriver(rdb)
	if err != nil {
		return "", err
	}
	locks, err := holdfast.New(d, &holdfast.Config{Logger: slog.New(slog.DiscardHandler), Prefix: prefix, TTL: ttl})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, locks.Close(context.WithoutCancel(ctx))) }()
	for _, lock := range []string{lottery, ledger} {
		lease, err := locks.Mutex(lock).TryAcquire(ctx)
		if err != nil {
			return "", err
		}
		if err := lease.Release(ctx); err != nil {
			return "", err
		}
	}
	info, err := d.Probe(ctx)
	if err != nil {
		return "", err
	}
	return printable.Line(fmt.Sprintf("%s %s at %s", info.Server, info.Version, d.Addr()), 200), nil
}

// deleteKeys deletes all that a run may have left, one by one, since on a
// Cluster they lie in several slots. The keys of locks are those of
// docs/PROTOCOL.md.
func deleteKeys(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	keys := []string{prefix + "fence"}
	for _, lock := range []string{lottery, ledger} {
		key := prefix + "{" + lock + "}"
		keys = append(keys, key, key+":q", key+":f", dataKey(prefix, lock))
	}
	// A request that was on its way when its worker ended can bring a key back.
	for gone := int64(1); gone > 0; {
		gone = 0
		for _, key := range keys {
			n, err := rdb.Del(ctx, key).Result()
			if err != nil {
				return fmt.Errorf("keys that begin with %s could not be deleted: %w", prefix, err)
			}
			gone += n
		}
	}
	return nil
}
