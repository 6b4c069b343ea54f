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

// timeout returns how long to wait for a node at first: NodeTimeout, or several times as long as the slowest node takes to answer, which
// leaves time for a new connection and for a script that the node does not know.
func (q *Quorum) timeout(l *mutex) time.Duration {
	base := l.first().Set.NodeWait()
	if l.first().Set.NodeTimeout > 0 {
		return base
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	slowest := time.Duration(0)
	for i := range q.nodes {
		slowest = max(slowest, q.nodes[i].trip)
	}
	return max(base, min(6*slowest, longestTimeout(l)))
}

// longer returns how long to wait for a node after a round for which timeout was too short.
func (q *Quorum) longer(l *mutex, timeout time.Duration) time.Duration {
	if l.first().Set.NodeTimeout > 0 {
		return timeout
	}
	return max(timeout, min(2*timeout, longestTimeout(l)))
}

// longestTimeout bounds how long to wait for a node without NodeTimeout.
func longestTimeout(l *mutex) time.Duration {
	return min(l.first().Set.TTL/4, l.c.Config.CommandTimeout)
}

// observe notes how long a node took to answer. A time far longer than before hardly counts, since it is most likely no round trip.
func (q *Quorum) observe(i int, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.nodes[i]
	if n.trip == 0 {
		n.trip = d
		return
	}
	n.trip += (min(d, 4*n.trip) - n.trip) / 4
}

// notAfter returns the time, by the node's clock in µs, after which the node carries out no copy of a request sent now.
func (q *Quorum) notAfter(i int, timeout time.Duration) int64 {
	return q.clients[i].Server.Time(0) + (timeout + time.Second).Microseconds()
}

// wish is a lock on one node.
type wish struct {
	node int
	key  string
}

// maxHanging bounds the unanswered votes for one lock on a node. A node with that many is no longer asked, since a node that hangs would
// cost a waiter more with every round. It is above 1 so that one lost message does not exclude a node.
const maxHanging = 4

// answers reports whether a node answers well enough to be asked for a lock.
func (q *Quorum) answers(w wish) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hanging[w] < maxHanging
}

// noteHanging adds n to the number of unanswered votes.
func (q *Quorum) noteHanging(w wish, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hanging[w] += n
	if q.hanging[w] == 0 {
		delete(q.hanging, w)
	}
}

// giveBack releases what a node granted or may have granted. Until that is done, the node may name this attempt as the holder.
func (q *Quorum) giveBack(v vote) {
	if v.a.IsOwed() {
		token := v.a.Token()
		q.returning.Store(token, nil)
		v.a.WhenSettled(func() { q.returning.Delete(token) })
	}
	v.a.Abandon()
}

// isReturning reports whether the grant with this token is being given back.
func (q *Quorum) isReturning(token string) bool {
	_, is := q.returning.Load(token)
	return is
}
