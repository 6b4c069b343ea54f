package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// checkServers refuses what the servers do not allow: their number, or their longest lease.
func (r *runner) checkServers(n int) error {
	switch {
	case r.quorum && r.isShared():
		return configError("%d servers are named, a quorum, and it has no locks for --shared, --exclusive, --slots and --owner: name one server for these", n)
	case r.quorum && r.once != 0:
		return configError("%d servers are named, a quorum, and it keeps no record of jobs: name one server for --once and --last", n)
	case r.quorum && len(r.also) > 0:
		return configError("%d servers are named, a quorum, and its locks have one name each: name one server for --also", n)
	case r.quorum && r.isForeign():
		return configError("%d servers are named, a quorum, and no other program knows how its locks are kept: name one server for --key and --redisson", n)
	case !r.quorum && r.nodeTimeout != 0:
		return configError("--node-timeout has a meaning with several servers only")
	case r.flags.Changed("max-ttl") && !r.strict && !r.quorum:
		return configError("--max-ttl has a meaning with --strict only, or with several servers")
	case (r.strict || r.quorum) && (r.maxTTL < r.ttl || r.maxTTL > maxTTL):
		return configError("--max-ttl %s: want %s (--ttl) to %s", r.maxTTL, r.ttl, maxTTL)
	case (r.strict || r.quorum) && r.minHold > r.maxTTL:
		return configError("--min-hold %s is longer than --max-ttl %s: the lock could not be left to expire then when holdfast is interrupted", r.minHold, r.maxTTL)
	}
	return nil
}

// checkNew refuses nodes of which a majority has never been admitted, and so none will let
// another in: they would let a run wait for a quarantine first. What cannot be asked,
// whoever acquires tells.
func (r *runner) checkNew(ctx context.Context) *exitError {
	if !r.quorum {
		return nil
	}
	space, err := keys.NewSpace(cmp.Or(r.prefix, "holdfast:"))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(r.nodeTimeout, 100*time.Millisecond))
	defer cancel()
	all := r.servers.all
	isNew := make([]bool, len(all))
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() { isNew[i] = errors.Is(e.client.Get(ctx, space.Incarnation()).Err(), redis.Nil) })
	}
	wg.Wait()
	var names []string
	for i, e := range all {
		if isNew[i] {
			names = append(names, e.addr)
		}
	}
	if len(names) <= len(all)/2 {
		return nil
	}
	return &exitError{exitUnavailable, fmt.Errorf("nodes %s have not been admitted to the quorum: holdfast init, with all nodes, admits them, once; "+
		"or they lost their data, and may only be admitted when no lease of before is believed in any more", strings.Join(names, ", "))}
}

// rollTime is how often it is seen which nodes agree, and how long one is waited for that is
// asked why it does not.
const rollTime = time.Second

// callRoll says which nodes of a quorum do not agree to the lease, and which do again, until
// it is ended.
func (r *runner) callRoll(lease *holdfast.Lease) (end func()) {
	if !r.quorum {
		return func() {}
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(rollTime)
		defer tick.Stop()
		told := map[string]bool{}
		for last := false; !last; {
			select {
			case <-tick.C:
			case <-stop:
				last = true
			}
			r.tellNodes(lease, told, last)
		}
	}()
	return func() {
		close(stop)
		<-over
	}
}

// tellNodes says what has changed since nodes were told. One that is only slow has until the
// next time, if there is one.
func (r *runner) tellNodes(lease *holdfast.Lease, told map[string]bool, last bool) {
	nodes := r.locks.quorum.Nodes(lease)
	if lease.Err() != nil {
		return
	}
	r.report.Nodes = nodes
	for _, e := range r.servers.all {
		agrees := slices.Contains(nodes, e.addr)
		if agrees == !told[e.addr] {
			continue
		}
		told[e.addr] = !agrees
		held := fmt.Sprintf("lock %q is held on %d of %d nodes", r.name, len(nodes), len(r.servers.all))
		if agrees {
			r.voice.note("node %s agrees now; %s", e.addr, held)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), rollTime)
		err := e.client.Ping(ctx).Err()
		cancel()
		switch {
		case err != nil:
			r.voice.note("warning: node %s does not answer; %s: %s", e.addr, held, nodeSays(err))
		case !last:
			r.voice.note("warning: node %s answers, but does not agree; %s: it may have restarted, which holdfast doctor tells", e.addr, held)
		}
	}
}

// nodeSays is what an error that a node sent may show. To a command that it does not know, which may be AUTH, a server
// answers with the arguments, cut off after so many characters.
func nodeSays(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return printable.Line(text, maxShown)
}

// quorumFailure says which nodes did not agree, why, and what to do; nil if that was not it.
func quorumFailure(err error) error {
	var quorum *holdfast.QuorumError
	if !errors.As(err, &quorum) {
		return nil
	}
	var nodes []string
	for _, n := range quorum.Nodes {
		nodes = append(nodes, n.Server+": "+nodeReason(n.Err))
	}
	text := fmt.Sprintf("%s %q: %d of %d nodes have to agree, and too few did: %s", quorum.Op, quorum.Name, quorum.Need, quorum.Of, strings.Join(nodes, "; "))
	switch {
	case errors.Is(err, holdfast.ErrDenied), errors.Is(err, holdfast.ErrUnsupported):
	case errors.Is(err, holdfast.ErrNotAdmitted):
		text += "; holdfast init, with all nodes, admits new ones"
	case errors.Is(err, holdfast.ErrQuarantine):
		text += "; without --try it waits for the end of a quarantine; holdfast doctor tells more"
	default:
		text += "; see whether these nodes run (holdfast doctor tells), or need more time (--node-timeout)"
	}
	return errors.New(text)
}

// nodeReason is a node's error without what is said of all.
func nodeReason(err error) string {
	var server *holdfast.ServerError
	if errors.As(err, &server) {
		if _, reason, told := strings.Cut(server.Error(), " on "+server.Server+": "); told {
			return reason
		}
	}
	return strings.TrimPrefix(err.Error(), "holdfast: ")
}
