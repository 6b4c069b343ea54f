package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/quorum"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// nodeWatchTime is how often watchNodes looks at the nodes, and how long it waits for one.
const nodeWatchTime = time.Second

// watchNodes says which nodes of a quorum do not agree to the lease, and which agree again, until it is stopped.
func (r *Run) watchNodes(lease *holdfast.Lease) (stop func()) {
	if !r.isQuorum() {
		return func() {}
	}
	w := &nodeWatch{run: r, lease: lease, missing: map[string]bool{}}
	stopped, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(nodeWatchTime)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.look(false)
			case <-stopped:
				w.look(true)
				return
			}
		}
	}()
	return func() {
		close(stopped)
		<-over
	}
}

// nodeWatch looks at the nodes that agree to a lease.
type nodeWatch struct {
	run     *Run
	lease   *holdfast.Lease
	missing map[string]bool // the nodes of which it was said that they do not agree
}

// look says what has changed. A node that answers but does not agree may only be slow, and is given until the next
// look; at the last one, nothing is said about it.
func (w *nodeWatch) look(last bool) {
	r, nodes := w.run, w.run.Locks.Nodes(w.lease)
	if w.lease.Err() != nil {
		return
	}
	r.report.Nodes = nodes
	for _, s := range r.Servers.All {
		agrees := slices.Contains(nodes, s.Addr)
		if agrees == !w.missing[s.Addr] {
			continue
		}
		w.missing[s.Addr] = !agrees
		held := fmt.Sprintf("lock %q is held on %d of %d nodes", r.Name, len(nodes), len(r.Servers.All))
		if agrees {
			r.Console.Notef("node %s agrees again; %s", s.Addr, held)
			continue
		}
		switch err := ping(s); {
		case err != nil:
			r.Console.Warnf("node %s does not answer; %s: %s", s.Addr, held, nodeError(err))
		case !last:
			r.Console.Warnf("node %s answers, but does not agree; %s: it may have restarted (see holdfast doctor)", s.Addr, held)
		}
	}
}

func ping(s *connect.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), nodeWatchTime)
	defer cancel()
	return s.Client().Ping(ctx).Err()
}

// nodeError returns what can be shown of a node's error. A server answers an unknown command with its arguments, cut
// off after some characters; if the command was AUTH, they contain a password.
func nodeError(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return printable.Line(text, MaxShown)
}

// quorumFailure says which nodes did not agree, why, and what to do; nil if that is not the error.
func quorumFailure(err error) error {
	var quorum *quorum.Error
	if !errors.As(err, &quorum) {
		return nil
	}
	var nodes []string
	for _, n := range quorum.Nodes {
		nodes = append(nodes, n.Server+": "+NodeReason(n.Err))
	}
	text := fmt.Sprintf("%s %q: %d of %d nodes must agree, but too few did: %s", quorum.Op, quorum.Name, quorum.Need, quorum.Of, strings.Join(nodes, "; "))
	switch {
	case errors.Is(err, holdfast.ErrDenied), errors.Is(err, holdfast.ErrUnsupported), errors.Is(err, holdfast.ErrMismatch):
	case errors.Is(err, holdfast.ErrNotAdmitted):
		text += "; if nodes are new, run holdfast init with all nodes"
	case errors.Is(err, holdfast.ErrQuarantine):
		text += "; without --try, a run waits for the end of a quarantine (see holdfast doctor)"
	default:
		text += "; check that these nodes run (see holdfast doctor), or give them more time (--node-timeout)"
	}
	return errors.New(text)
}

// NodeReason returns the error of a node, without what is the same for all nodes.
func NodeReason(err error) string {
	var server *holdfast.ServerError
	if errors.As(err, &server) {
		if _, reason, found := strings.Cut(server.Error(), " on "+server.Server+": "); found {
			return reason
		}
	}
	return strings.TrimPrefix(err.Error(), "holdfast: ")
}
