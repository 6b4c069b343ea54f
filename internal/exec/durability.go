package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// Durability is what has to have a write before it counts.
type Durability struct {
	driver.Durability
	// Achieves reports whether a reply says that something was achieved, which has to be durable.
	Achieves func(text string) bool
}

// unconfirmed is the error of something that the server has carried out, and that is not as durable as it has to be. It
// matches ErrReplicas.
type unconfirmed struct {
	err  error
	disk bool // because of a disk, the master's or a replica's
}

func (e unconfirmed) Error() string        { return "not confirmed: " + e.err.Error() }
func (e unconfirmed) Is(target error) bool { return target == ErrReplicas }
func (e unconfirmed) Unwrap() error        { return e.err }

// shortfall says by how much a write fell short of its durability; nil if it did not.
func shortfall(d driver.Durability, r driver.Confirmation) error {
	switch {
	case d.Fsync && !r.Fsync:
		return unconfirmed{fmt.Errorf("not on the master's disk within %s; appendfsync must be always, or everysec, which takes a second and more", d.Timeout), true}
	case r.Replicas < d.Replicas && d.Fsync:
		return unconfirmed{fmt.Errorf("%d of %d replicas have it on disk within %s", r.Replicas, d.Replicas, d.Timeout), true}
	case r.Replicas < d.Replicas:
		return unconfirmed{fmt.Errorf("%d of %d replicas within %s", r.Replicas, d.Replicas, d.Timeout), false}
	}
	return nil
}

// run runs a request's script. short is the error of a script that was carried out, but is not as durable as it has to
// be: whether that matters depends on its reply.
func (s *Server) run(ctx context.Context, rq Request) (text string, short, err error) {
	if rq.Durability == nil {
		text, err = s.driver.Run(ctx, rq.Call)
		return text, nil, err
	}
	d := rq.Durability.Durability
	if !rq.Call.Urgent { // asking what counts costs a round trip, which a renewal can do without
		d.Counts = rq.Durability.Achieves
	}
	text, reached, err := s.driver.(driver.Durable).RunDurably(ctx, rq.Call, d)
	var refusal driver.ReplyError
	if text != "" && errors.As(err, &refusal) {
		return text, unconfirmed{told(refusal), d.Fsync}, nil
	}
	return text, shortfall(d, reached), err
}
