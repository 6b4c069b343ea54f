// Package demo shows locks at work, and checks them: processes compete, one is killed and one is paused, and then their records are
// checked against what locks promise.
package demo

import (
	"context"
	"io"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Config says how to run the demo.
type Config struct {
	Workers int
	Seed    uint64 // decides who wins, and who has an accident
	NoLock  bool   // do without the lock, to show what it prevents
	Out     io.Writer
	JSON    bool   // print only the summary, as one JSON object
	Picture string // the file for an animated SVG of what happened; "" for none
}

// Bounds of Config.Workers. A second worker is needed to take over from the first.
const (
	MinWorkers = 2
	MaxWorkers = 32
)

// ttl is the TTL of the demo's locks. It is short so that leases expire soon.
const ttl = 1500 * time.Millisecond

// maxTime bounds the demo. What has not happened by then is missing, and a check fails.
const maxTime = 26 * time.Second

// Run runs the demo. Its error, which has an exit code, is ctx's cause if ctx ended; otherwise it says which checks failed, or what kept
// the demo from running. When Run returns, the demo's processes have ended.
func Run(ctx context.Context, cfg Config) error {
	// Workers die with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		return exitcode.Errorf(exitcode.None, "the embedded server: %w", err)
	}
	defer server.Close()
	shown := cfg.Out
	if cfg.JSON {
		shown = io.Discard
	}
	d := newDirector(ctx, cfg, newScreen(shown), assignment{Addr: server.Addr(), Seed: cfg.Seed, Locked: !cfg.NoLock})
	err = d.direct()
	d.processes.end(d.history.Add)
	if err == nil {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer rdb.Close()
		err = d.readRegisters(rdb)
	}
	if ctx.Err() != nil {
		return exitcode.OfLibrary(context.Cause(ctx)) // other errors only follow from that
	}
	if err != nil {
		return &exitcode.Error{Code: exitcode.None, Err: err}
	}
	s := summarize(cfg, &d.history, Now()-d.began)
	s.show(d.screen)
	if cfg.JSON {
		text, err := output.JSON(s)
		if err == nil {
			_, err = cfg.Out.Write(text)
		}
		if err != nil {
			return exitcode.OfOutput(err)
		}
	}
	if cfg.Picture != "" { // also if a check has failed
		text, err := picture(&d.history)
		if err != nil {
			return &exitcode.Error{Code: exitcode.None, Err: err}
		}
		if err := output.ReplaceFile(cfg.Picture, text); err != nil {
			return &exitcode.Error{Code: exitcode.CannotCreate, Err: err}
		}
	}
	return s.failed()
}
