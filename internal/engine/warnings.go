package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// warning describes something about the server that makes locks unsafe or slow.
type warning struct {
	what        string // identifies the warning: each is given once
	seen        string // the evidence, as the server gives it
	consequence string
	remedy      string
}

// warnings remembers the warnings that were given.
type warnings struct {
	mu    sync.Mutex
	given map[string]struct{}
}

// isFirst reports whether it is called for the first time with what.
func (w *warnings) isFirst(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.given[what]; again {
		return false
	}
	if w.given == nil {
		w.given = map[string]struct{}{}
	}
	w.given[what] = struct{}{}
	return true
}

// warn logs a warning, once. A slow logger delays only Close.
func (c *Client) warn(w warning) {
	if !c.warnings.isFirst(w.what) {
		return
	}
	logger := c.logger()
	c.tasks.Run(func() {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "holdfast: "+w.what,
			slog.String("server", c.server.Addr()),
			slog.String("seen", w.seen),
			slog.String("consequence", w.consequence),
			slog.String("remedy", w.remedy),
			slog.String("more", "run holdfast doctor to examine the server"))
	})
}

// checkServer checks once, in the background, whether the server's settings are safe for locks, and
// warns of those that are not. No acquire depends on it: it uses none of the application's
// connections, and its own errors are dropped. In Cluster mode it asks the node of the first lock;
// holdfast doctor asks all nodes.
func (c *Client) checkServer(l *Target) {
	if mistakes := c.server.Info().Mistakes; mistakes != "" {
		c.warn(warning{
			what:        "not all addresses are those of sentinels that know the master",
			seen:        exec.Shown(mistakes),
			consequence: "with fewer sentinels, programs may not learn of a failover",
			remedy:      "correct these addresses, or what these sentinels watch",
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.tasks.Run(func() {
		select {
		case <-c.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	a, _, err := ask(ctx, c, request{op: "survey", lock: l}, &codec.Survey{Lock: l.ref()})
	if err != nil {
		return
	}
	for _, w := range unsafeSettings(&a.reply) {
		c.warn(w)
	}
}

// unsafeSettings returns the warnings that a server's settings give cause for.
func unsafeSettings(s *codec.SurveyReply) (found []warning) {
	if s.MaxMemory > 0 && evicts(s.Policy) {
		found = append(found, warning{
			what:        "the server can evict locks when its memory is full",
			seen:        fmt.Sprintf("maxmemory-policy %s with maxmemory %d", s.Policy, s.MaxMemory),
			consequence: "a lock can disappear while it is held, and be granted to someone else",
			remedy:      "set maxmemory-policy to noeviction, or give locks a server of their own",
		})
	}
	if s.Role == "slave" {
		found = append(found, warning{
			what:        "the server is a replica",
			seen:        "role " + s.Role,
			consequence: "it refuses writes, so no lock can be acquired",
			remedy:      "connect to the master, directly or through Sentinel or Cluster",
		})
	}
	return found
}

// evicts reports whether a policy deletes keys that have an expiry, as locks do.
func evicts(policy string) bool {
	return strings.HasPrefix(policy, "allkeys-") || strings.HasPrefix(policy, "volatile-")
}

// silentPolls is how many polls are answered without a confirmed subscription before a client
// warns.
const silentPolls = 3

// warnOfPolling warns if the server answers but its notifications do not reach this waiter. It is
// in no hurry: after an outage a subscription may come back later than the first replies.
func (acq *acquirer) warnOfPolling() {
	w := warning{
		what:        "waiters cannot be notified, so they poll",
		consequence: "they get the lock late, have no place in the queue, and load the server",
		remedy:      "let pub/sub reach the server itself, or poll on purpose, with the Poll option",
	}
	switch {
	case acq.sub.IsRefused():
		w.seen = "the server's ACL refuses the subscription"
		w.remedy = "allow subscribe, publish and the channels; see docs/SECURITY.md"
	case acq.subscriptionUnknown && acq.queue.l.c.server.InCluster():
		// While a slot moves key by key, its old node has the subscription and its new one the
		// lock. That passes.
		if time.Since(acq.pollingSince) < maxSleep {
			return
		}
		w.seen = "a subscription is confirmed, but the lock's node does not have it; is its slot being moved, or is there a proxy in front of the Cluster?"
		w.remedy = "wait if slots are being moved: it passes; otherwise let pub/sub reach the nodes themselves, or poll on purpose, with the Poll option"
	case acq.subscriptionUnknown:
		w.seen = "a subscription is confirmed, but the server does not have it; is there a proxy in front of it?"
	case acq.polls >= silentPolls:
		w.seen = "no subscription is confirmed, although scripts are answered; is there a proxy in front of the server?"
	default:
		return
	}
	acq.queue.l.c.warn(w)
}
