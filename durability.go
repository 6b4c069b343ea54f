package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Durability is what must have a write before it counts.
type Durability struct {
	Replicas int           // so many must have received it
	Fsync    bool          // and have it on disk, and so must the master
	Timeout  time.Duration // how long that may take
}

// Reached is what did have a write in time.
type Reached struct {
	Replicas int
	Master   bool // with Fsync: it is on the master's disk
}

// defaultConfirmation bounds how long replicas are waited for.
const defaultConfirmation = time.Second

// durability is what the settings want, or nil.
func (s *settings) durability() *Durability {
	if s.replicas == 0 && !s.fsync {
		return nil
	}
	return &Durability{Replicas: s.replicas, Fsync: s.fsync, Timeout: s.confirmation}
}

func (s *settings) checkDurability(commandTimeout time.Duration) error {
	switch {
	case s.replicas < 0:
		return errors.New("the number of replicas is negative")
	case s.confirmation < time.Millisecond || s.confirmation > commandTimeout:
		return fmt.Errorf("the timeout of MinReplicas is %s; from 1ms to %s is allowed (Config.CommandTimeout)", s.confirmation, commandTimeout)
	}
	return nil
}

// unconfirmed is the error of something that the master has carried out, and that is not
// as durable as it has to be. It matches ErrReplicas.
type unconfirmed struct{ err error }

func (e unconfirmed) Error() string        { return "not confirmed: " + e.err.Error() }
func (e unconfirmed) Is(target error) bool { return target == ErrReplicas }
func (e unconfirmed) Unwrap() error        { return e.err }

// shortfall says by how much a write fell short of its durability.
func (d *Durability) shortfall(r Reached) error {
	switch {
	case d.Fsync && !r.Master:
		return unconfirmed{fmt.Errorf("not on the master's disk within %s", d.Timeout)}
	case r.Replicas < d.Replicas:
		return unconfirmed{fmt.Errorf("%d of %d replicas within %s", r.Replicas, d.Replicas, d.Timeout)}
	}
	return nil
}

// eval runs a request's script. What is to be durable, and is not, has been carried out
// on the master: short says so.
func (c *Client) eval(ctx context.Context, rq request, keys []string) (text string, short, err error) {
	d := rq.lock.set.durability()
	if d == nil || !rq.durable {
		text, err = c.driver.Eval(ctx, rq.script, keys, rq.args, rq.urgent)
		return text, nil, err
	}
	text, reached, err := c.driver.EvalDurably(ctx, rq.script, keys, rq.args, *d)
	var refusal ReplyError
	if text != "" && errors.As(err, &refusal) {
		return text, unconfirmed{told(refusal)}, nil
	}
	return text, d.shortfall(reached), err
}
