package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Init is inspect.Inspector.Admit; with force it is ForceAdmit.
func (c *Client) Init(ctx context.Context, force bool) error {
	if !c.cfg.Strict {
		return fmt.Errorf("%w: only a client with Config.Strict admits a server", ErrInvalid)
	}
	mode := codec.Admit
	if force {
		mode = codec.AdmitKnown
	}
	reply, err := c.askInit(ctx, mode)
	if err == nil && reply.Word == codec.Quarantined {
		err = c.quarantineError("init", c.space.Incarnation(), reply.Refusal.Quarantine)
	}
	return err
}

// IsNew reports whether a server has not been used in Strict mode yet, or has lost its record of
// that. It changes nothing.
func (c *Client) IsNew(ctx context.Context) (bool, error) {
	reply, err := c.askInit(ctx, codec.LookAtMark)
	return reply.Word == codec.Unmarked, err
}

// askInit runs init.lua.
func (c *Client) askInit(ctx context.Context, mode codec.InitMode) (codec.InitReply, error) {
	if c.isClosing() {
		return codec.InitReply{}, exec.ErrClosed
	}
	mark := c.space.Incarnation()
	if err := c.server.Connect(ctx, mark); err != nil {
		return codec.InitReply{}, err
	}
	q := codec.Init{Flags: c.strict, Mark: mark, Mode: mode}
	a, _, err := c.server.Do(ctx, exec.Request{Op: "init", Name: mark, Call: q.Call()})
	if err != nil {
		return codec.InitReply{}, err
	}
	reply, err := q.Parse(a.Text)
	if err != nil {
		err = &exec.Failure{Op: "init", Name: mark, Server: c.server.Addr(), Err: wire.ErrMalformed}
	}
	return reply, err
}

func (c *Client) quarantineError(op, name string, left time.Duration) error {
	return &exec.Failure{Op: op, Name: name, Server: c.server.Addr(), Kind: exec.ErrQuarantine, Err: &exec.Quarantine{Left: left}}
}
