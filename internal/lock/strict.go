package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// Init is inspect.Inspector.Admit or, with force, ForceAdmit.
func (k *Keyspace) Init(ctx context.Context, force bool) error {
	if !k.Config.Strict {
		return fmt.Errorf("%w: only a client with Config.Strict admits a server", ErrInvalid)
	}
	mode := codec.Admit
	if force {
		mode = codec.AdmitKnown
	}
	reply, err := k.askInit(ctx, mode)
	if err == nil && reply.Word == codec.Quarantined {
		err = k.QuarantineError("init", "", reply.Refusal.Quarantine)
	}
	return err
}

// IsNew reports whether a server has not been used in Strict mode yet, or has lost its record of that. It changes nothing.
func (k *Keyspace) IsNew(ctx context.Context) (bool, error) {
	reply, err := k.askInit(ctx, codec.LookAtMark)
	return reply.Word == codec.Unmarked, err
}

func (k *Keyspace) askInit(ctx context.Context, mode codec.InitMode) (codec.Reply, error) {
	if k.IsClosing() {
		return codec.Reply{}, exec.ErrClosed
	}
	mark := k.Space.Incarnation
	if err := k.Server.Connect(ctx, ""); err != nil {
		return codec.Reply{}, exec.InTask("init", err)
	}
	a, _, err := Ask(ctx, k.about("init", mark), codec.Init(k.strict, mark, mode))
	return a.Reply, err
}

// WarnOfQuarantine logs, once, that callers wait for the end of a quarantine. seen is what the server said.
func (k *Keyspace) WarnOfQuarantine(seen string) {
	k.Warn(Warning{
		What:        "the server may have lost locks, and grants none for now",
		Seen:        seen,
		Consequence: "until then, acquires wait",
		Remedy:      "wait; if the server is new and has never granted a lock, \"holdfast init --force\" or inspect.Inspector.ForceAdmit ends the quarantine",
	})
}

// QuarantineError returns the error of an operation that a server in quarantine refuses for that much longer.
func (k *Keyspace) QuarantineError(op, name string, left time.Duration) error {
	return &exec.Failure{Op: op, Name: name, Server: k.Server.Addr(), Kind: exec.ErrQuarantine, Err: &exec.Quarantine{Left: left}}
}
