// Package demo shows locks at work, and checks them: processes compete, one is killed, one is paused, and what all of
// them recorded is checked against what locks promise.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
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
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/picture"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/worker"
)

// Config says how to run the demo.
type Config struct {
	URL     string // of a Redis server; "" starts one in this process
	Open    worker.Opener
	Workers int
	Seed    uint64 // decides who wins, and who has an accident
	NoLock  bool   // do without the lock, to show what it prevents
	Out     io.Writer
	JSON    bool      // print only the summary, as one JSON object
	Picture io.Writer // for an animated SVG of what happened; nil for none
	Screen  io.Writer // for an animated SVG of what the demo showed; nil for none
}

// Bounds of Config.Workers. At least two are needed, so that one can take over from the other.
const (
	MinWorkers = 2
	MaxWorkers = 32
)

// ttl is the TTL of the demo's locks: short, so that nobody waits long for a lease to expire.
const ttl = 1500 * time.Millisecond

// maxTime bounds the demo. What has not happened by then is found missing by a check.
const maxTime = 26 * time.Second

// FailedError says which checks failed.
type FailedError struct {
	Failed []history.Check
	Of     int // how many checks were made
}

func (e *FailedError) Error() string {
	names := make([]string, len(e.Failed))
	for i, c := range e.Failed {
		names[i] = c.Name
	}
	return fmt.Sprintf("%d of %d checks failed: %s", len(e.Failed), e.Of, strings.Join(names, "; "))
}

// Run runs the demo. It returns a *FailedError if a check failed, ctx's cause if ctx ended, and otherwise what kept the
// demo from running. When it returns, its processes have ended and its keys are deleted.
func Run(ctx context.Context, cfg Config) (err error) {
	// Workers die with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	url, name := cfg.URL, ""
	if url == "" {
		server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			return fmt.Errorf("the embedded server: %w", err)
		}
		defer server.Close()
		url, name = "redis://"+server.Addr(), "embedded server"
	}
	rdb, err := cfg.Open(url)
	if err != nil {
		return err
	}
	defer rdb.Close()
	prefix := newPrefix()
	ownName, err := tryLocks(ctx, rdb, prefix)
	if err != nil {
		return interrupted(ctx, err)
	}
	if name == "" {
		name = ownName
	}
	defer func() { err = errors.Join(err, deleteKeys(ctx, rdb, prefix)) }()

	shown := cfg.Out
	if cfg.JSON {
		shown = io.Discard
	}
	n := newNarrator(screen.New(shown))
	var recording *screen.Recording
	if cfg.Screen != nil {
		recording = n.Record()
	}
	d := newDirector(cfg, n, newProcesses(worker.Assignment{
		URL: url, Prefix: prefix, TTL: ttl, Seed: cfg.Seed, Locked: !cfg.NoLock,
	}))
	n.open(cfg.Workers, name)
	err = d.direct(ctx)
	n.Finish()
	d.processes.end(d.history.Add)
	if err == nil {
		err = d.readRegisters(ctx, rdb)
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	s := summarize(cfg, name, &d.history, history.Now().Sub(d.began))
	s.show(n.Screen)
	if cfg.JSON {
		if err := json.NewEncoder(cfg.Out).Encode(s); err != nil {
			return err
		}
	}
	if cfg.Screen != nil {
		if err := recording.WriteSVG(cfg.Screen); err != nil {
			return err
		}
	}
	if cfg.Picture != nil {
		if err := picture.Write(cfg.Picture, &d.history, ttl); err != nil {
			return err
		}
	}
	return s.failed()
}

// interrupted returns the cause if ctx has ended: other errors only follow from that.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// newPrefix returns a prefix for keys that no other run has. It begins like all keys of Holdfast, so that one ACL rule
// allows them all.
func newPrefix() string {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	return "holdfast:demo:" + hex.EncodeToString(id[:]) + ":"
}

// tryLocks takes and releases the locks, so that a server that cannot be used is found before any process is started.
// It returns what the server calls itself.
func tryLocks(ctx context.Context, rdb redis.UniversalClient, prefix string) (name string, err error) {
	d, err := holdfastgoredis.NewDriver(rdb)
	if err != nil {
		return "", err
	}
	locks, err := holdfast.New(d, &holdfast.Config{Logger: slog.New(slog.DiscardHandler), Prefix: prefix, TTL: ttl})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, locks.Close(context.WithoutCancel(ctx))) }()
	for _, lock := range []string{history.Lottery, history.Ledger} {
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

// deleteKeys deletes every key that docs/PROTOCOL.md lists, and the registers: one by one, because in a Cluster they are
// in several slots.
func deleteKeys(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	space, err := keys.NewSpace(prefix)
	if err != nil {
		return err
	}
	all := []string{space.Fence()}
	for _, lock := range []string{history.Lottery, history.Ledger} {
		key := prefix + "{" + lock + "}"
		all = append(all, key, key+":q", space.SlotFence(keys.Slot(key)), worker.RegisterKey(prefix, lock))
	}
	// A request that was under way when its worker ended can bring a key back.
	for gone := int64(1); gone > 0; {
		gone = 0
		for _, key := range all {
			n, err := rdb.Del(ctx, key).Result()
			if err != nil {
				return fmt.Errorf("deleting keys that begin with %s: %w", prefix, err)
			}
			gone += n
		}
	}
	return nil
}
