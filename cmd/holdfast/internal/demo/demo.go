// Package demo shows locks at work, and checks them: processes compete, one is killed, one is paused, and what all of
// them recorded is checked against what locks promise.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
)

// Config says how to run the demo.
type Config struct {
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

// maxTime bounds the demo. A check finds missing what has not happened by then.
const maxTime = 26 * time.Second

// Run runs the demo. Its error says which checks failed, or is ctx's cause if ctx ended, or what kept the demo from running. When it
// returns, its processes have ended.
func Run(ctx context.Context, cfg Config) error {
	// Workers die with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		return fmt.Errorf("the embedded server: %w", err)
	}
	defer server.Close()
	shown := cfg.Out
	if cfg.JSON {
		shown = io.Discard
	}
	d := newDirector(ctx, cfg, screen.New(shown), assignment{Addr: server.Addr(), Seed: cfg.Seed, Locked: !cfg.NoLock})
	var recording *screen.Recording
	if cfg.Screen != nil {
		recording = d.Record()
	}
	err = d.direct()
	d.processes.end(d.history.Add)
	if err == nil {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer rdb.Close()
		err = d.readRegisters(rdb)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // other errors only follow from that
	}
	if err != nil {
		return err
	}
	s := summarize(cfg, &d.history, Now().Sub(d.began))
	s.show(d.Screen)
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
		if err := writePicture(cfg.Picture, &d.history); err != nil {
			return err
		}
	}
	return s.failed()
}
