package job

import (
	"context"
	"errors"
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

// quorumAdvice says what to do about an error of a quorum; "" if err is another error, or says so itself.
func quorumAdvice(err error) string {
	switch {
	case !errors.As(err, new(*quorum.Error)),
		errors.Is(err, holdfast.ErrDenied), errors.Is(err, holdfast.ErrUnsupported), errors.Is(err, holdfast.ErrMismatch):
		return ""
	case errors.Is(err, holdfast.ErrNotAdmitted):
		return "; if nodes are new, run holdfast init with all nodes"
	case errors.Is(err, holdfast.ErrQuarantine):
		return "; without --try, a run waits for the end of a quarantine (see holdfast doctor)"
	}
	return "; check that these nodes run (see holdfast doctor), or give them more time (--node-timeout)"
}
