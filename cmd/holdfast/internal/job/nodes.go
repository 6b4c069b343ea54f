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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// nodeTime is how long after a grant tellNodes looks at the nodes, since slow ones may still answer, and how long it waits for a node.
const nodeTime = time.Second

// tellNodes warns of nodes of a quorum that do not answer. stop records in the report which nodes hold the lease at that time.
func (r *Run) tellNodes(lease *holdfast.Lease) (stop func()) {
	if !r.Servers.AreQuorum() {
		return func() {}
	}
	stopped, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-time.After(nodeTime):
		case <-stopped:
		}
		nodes := r.Locks.Nodes(lease)
		for _, s := range r.Servers.All {
			if slices.Contains(nodes, s.Addr) || lease.Err() != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), nodeTime)
			if err := s.Client.Ping(ctx).Err(); err != nil {
				r.Console.Warnf("node %s does not answer; lock %q is held on %d of %d nodes: %s",
					s.Addr, r.Name, len(nodes), len(r.Servers.All), nodeError(err))
			}
			cancel()
		}
	}()
	return func() {
		close(stopped)
		<-over
		if lease.Err() == nil {
			r.report.Nodes = r.Locks.Nodes(lease)
		}
	}
}

// nodeError returns what may be shown of a node's error. A server that does not know a command repeats the arguments, cut off after
// some characters; if the command was AUTH, they contain a password.
func nodeError(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return printable.Line(text, lockstatus.MaxShown)
}

// quorumFailure says which nodes did not agree, why, and what to do. It returns nil if err is another error.
func quorumFailure(err error) error {
	var quorum *quorum.Error
	if !errors.As(err, &quorum) {
		return nil
	}
	var nodes []string
	for _, n := range quorum.Nodes {
		nodes = append(nodes, n.Server+": "+nodeReason(n.Err))
	}
	text := fmt.Sprintf("%s %q: %d of %d nodes must agree, but too few did: %s",
		quorum.Op, quorum.Name, quorum.Need, quorum.Of, strings.Join(nodes, "; "))
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

// nodeReason returns the error of a node, without the part that is the same for all nodes.
func nodeReason(err error) string {
	var server *holdfast.ServerError
	if errors.As(err, &server) {
		if _, reason, found := strings.Cut(server.Error(), " on "+server.Server+": "); found {
			return reason
		}
	}
	return strings.TrimPrefix(err.Error(), "holdfast: ")
}
