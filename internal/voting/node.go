package voting

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// node is what the quorum knows about one server.
type node struct {
	connecting chan struct{} // closed when the latest attempt to connect has ended; nil before the first
	err        error         // of that attempt
	trip       time.Duration // about how long the node takes to answer; 0 if unknown
}

// ready waits until a majority of nodes has been reached, or every node has been tried.
func (q *Quorum) ready(ctx context.Context, l *mutex) error {
	closed := 0
	for _, c := range q.clients {
		if isDone(c.Closing) {
			closed++
		}
	}
	if closed > len(q.clients)-q.need {
		return exec.ErrClosed
	}
	for i := range q.clients {
		q.connect(i, l.name)
	}
	for {
		known, settled := 0, 0
		q.mu.Lock()
		next := q.settled
		for i, c := range q.clients {
			n := &q.nodes[i]
			switch {
			case c.Server.Info() != nil:
				known++
				settled++
			case isDone(n.connecting):
				settled++
			}
		}
		q.mu.Unlock()
		if known >= q.need || settled == len(q.clients) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isDone(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// connect probes a node in the background, unless a probe is under way. It returns a channel that is closed when the probe has ended, or
// nil if the node has already been reached.
func (q *Quorum) connect(i int, name string) <-chan struct{} {
	c := q.clients[i]
	if c.Server.Info() != nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.nodes[i]
	if n.connecting != nil && !isDone(n.connecting) {
		return n.connecting
	}
	over := make(chan struct{})
	n.connecting = over
	c.Tasks.Run(func() {
		server, err := exec.Try(context.Background(), c.Server, c.Config.CommandTimeout, c.Server.Probe)
		if err == nil {
			q.observe(i, max(clock.Since(server.Sent)/probeTrips, 1))
			err = c.Server.Use(server, name)
		} else {
			err = c.Server.Failure(exec.OpReach, name, err)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		n.err = err
		close(over)
		close(q.settled)
		q.settled = make(chan struct{})
	})
	return over
}

// probeTrips is how many round trips a probe takes on a new connection: TCP, a client's greeting, and two commands.
const probeTrips = 4

// reach waits until node i can be asked: its vote may be needed even if a majority has been reached. Its error says that nothing was sent.
func (q *Quorum) reach(ctx context.Context, i int, name string) error {
	c := q.clients[i]
	if isDone(c.Closing) {
		return exec.Unsent(exec.ErrClosed)
	}
	if over := q.connect(i, name); over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
	if c.Server.Info() != nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return exec.Unsent(cmp.Or(q.nodes[i].err, errUnconnected))
}

// askNode sends a request about a lock to node i, once. sent is when.
func askNode[R any](ctx context.Context, l *mutex, i int, timeout time.Duration, op string, m codec.Request[R]) (reply R, sent clock.Instant, err error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := l.q.reach(waiting, i, l.name); err != nil {
		return reply, sent, err
	}
	return engine.AskNode(waiting, l.parts[i], timeout, op, m)
}

// askNodes sends, at the same time, each node the request that compose returns for it, if any, and returns the replies by node.
func askNodes[R any](ctx context.Context, l *mutex, timeout time.Duration, op string, compose func(i int, p *engine.Target) codec.Request[R]) ([]R, []error) {
	replies := make([]R, len(l.parts))
	return replies, together(l.parts, func(i int) (err error) {
		m := compose(i, l.parts[i])
		if m == nil {
			return errUnasked
		}
		replies[i], _, err = askNode(ctx, l, i, timeout, op, m)
		return err
	})
}

// onEach calls f for all nodes at the same time, and returns the errors by node.
func (q *Quorum) onEach(f func(i int, c *engine.Client) error) []error {
	q.beginTask()
	defer q.endTask()
	return together(q.clients, func(i int) error { return f(i, q.clients[i]) })
}

// together calls f for the index of each of all at the same time, and returns the errors by index.
func together[T any](all []T, f func(i int) error) []error {
	errs := make([]error, len(all))
	var doing sync.WaitGroup
	for i := range all {
		doing.Go(func() { errs[i] = f(i) })
	}
	doing.Wait()
	return errs
}

// failed reports whether any node that was asked has failed.
func failed(errs []error) bool {
	return slices.ContainsFunc(errs, func(err error) bool { return err != nil && err != errUnasked })
}
