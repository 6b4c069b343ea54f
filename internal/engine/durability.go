package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// defaultConfirmation bounds how long replicas are waited for; defaultSync, how long disks are.
// With appendfsync everysec a server begins to write to its disk once in a second, and notices up to 0.1 s
// later that it is done. The call, of which this is a part, has CommandTimeout, and is answered
// up to 0.1 s after this is over.
const (
	defaultConfirmation = time.Second
	defaultSync         = 1700 * time.Millisecond
)

// isDurable reports whether replicas, or disks, have to confirm what is written.
func (s *settings) isDurable() bool { return s.replicas != 0 || s.fsync }

// durability is what the settings want of a write that takes no longer than commandTimeout.
func (s *settings) durability(commandTimeout time.Duration) driver.Durability {
	d := driver.Durability{Replicas: s.replicas, Fsync: s.fsync, Timeout: s.confirmation}
	switch {
	case d.Timeout != 0:
	case s.fsync:
		d.Timeout = max(min(defaultSync, commandTimeout*17/20), time.Millisecond)
	default:
		d.Timeout = min(defaultConfirmation, commandTimeout)
	}
	return d
}

func (s *settings) checkDurability(commandTimeout time.Duration) error {
	switch {
	case s.replicas < 0:
		return errors.New("the number of replicas is negative")
	case s.confirmation != 0 && (s.confirmation < time.Millisecond || s.confirmation > commandTimeout):
		return fmt.Errorf("the timeout of MinReplicas is %s; from 1ms to %s is allowed (Config.CommandTimeout)", s.confirmation, commandTimeout)
	}
	return nil
}

// unconfirmed is the error of something that the master has carried out, and that is not
// as durable as it has to be. It matches ErrReplicas.
type unconfirmed struct {
	err  error
	disk bool // because of a disk, the master's or a replica's
}

func (e unconfirmed) Error() string        { return "not confirmed: " + e.err.Error() }
func (e unconfirmed) Is(target error) bool { return target == ErrReplicas }
func (e unconfirmed) Unwrap() error        { return e.err }

// shortfall says by how much a write fell short of its durability.
func shortfall(d driver.Durability, r driver.Confirmation) error {
	switch {
	case d.Fsync && !r.Fsync:
		return unconfirmed{fmt.Errorf("not on the master's disk within %s, for which appendfsync has to be always, or everysec, which takes a second and more", d.Timeout), true}
	case r.Replicas < d.Replicas && d.Fsync:
		return unconfirmed{fmt.Errorf("%d of %d replicas have it on disk within %s", r.Replicas, d.Replicas, d.Timeout), true}
	case r.Replicas < d.Replicas:
		return unconfirmed{fmt.Errorf("%d of %d replicas within %s", r.Replicas, d.Replicas, d.Timeout), false}
	}
	return nil
}

// counts reports whether a reply says that something was achieved, which has to be durable.
func counts(reply string) bool {
	word, _, _ := strings.Cut(reply, " ")
	return achieves[word]
}

// eval runs a request's script. What is to be durable, and is not, has been carried out
// on the master: short says so.
func (c *Client) eval(ctx context.Context, rq request, keys []string) (text string, short, err error) {
	call := driver.Call{Script: rq.script, Keys: keys, Args: rq.args, Urgent: rq.urgent}
	if !rq.durable || !rq.lock.set.isDurable() {
		text, err = c.driver.Run(ctx, call)
		return text, nil, err
	}
	d := rq.lock.set.durability(c.cfg.CommandTimeout)
	if !rq.urgent {
		d.Counts = counts // costs a round trip, which a renewal can do without
	}
	text, reached, err := c.driver.(driver.Durable).RunDurably(ctx, call, d)
	var refusal driver.ReplyError
	if text != "" && errors.As(err, &refusal) {
		return text, unconfirmed{told(refusal), d.Fsync}, nil
	}
	return text, shortfall(d, reached), err
}
