package lock

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// Warning describes a setting or state of the server that makes locks unsafe or slow.
type Warning struct {
	What        string // identifies the warning, which is given once
	Seen        string // the evidence, as the server gives it
	Consequence string
	Remedy      string
}

type warnings struct {
	mu    sync.Mutex
	given map[string]struct{}
}

// isFirst reports whether this is its first call with what.
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

// Warn logs a warning at most once. A slow logger delays only Close.
func (k *Keyspace) Warn(w Warning) {
	if !k.warnings.isFirst(w.What) {
		return
	}
	logger := k.Logger()
	k.Tasks.Run(func() {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "holdfast: "+w.What,
			slog.String("server", k.Server.Addr()),
			slog.String("seen", w.Seen),
			slog.String("consequence", w.Consequence),
			slog.String("remedy", w.Remedy),
			slog.String("more", "run holdfast doctor to examine the server"))
	})
}

// checkServer checks once, in the background, whether the server's settings are safe for locks, and logs a warning about each that is not.
// No acquire depends on it: it uses none of the application's connections, and its own errors are dropped. In Cluster mode it asks the node
// of the first lock; holdfast doctor asks all nodes.
func (k *Keyspace) checkServer(l *Lock) {
	if mistakes := k.Server.Info().Mistakes; mistakes != "" {
		k.Warn(Warning{
			What:        "not all addresses are those of sentinels that know the master",
			Seen:        exec.Shown(mistakes),
			Consequence: "with fewer sentinels, programs may not learn of a failover",
			Remedy:      "correct these addresses, or what these sentinels watch",
		})
	}
	ctx, cancel := k.Server.WhileOpen()
	defer cancel()
	q := codec.Survey{Lock: l.Ref()}
	if !k.Server.InCluster() {
		q.Mark = k.Space.Incarnation
	}
	a, _, err := Ask(ctx, Request{Op: "survey", Lock: l}, &q)
	if err != nil {
		return
	}
	if a.Reply.IsStrict && !k.Config.Strict {
		k.Warn(Warning{
			What:        "other clients with this prefix are Strict, and this one is not",
			Seen:        fmt.Sprintf("the server has been admitted to Strict mode: it has the key %q", q.Mark),
			Consequence: "after a loss of data this client acquires locks that others may still hold",
			Remedy:      "set Config.Strict, or another Config.Prefix; if no client is Strict any more, delete that key",
		})
	}
	for _, w := range unsafeSettings(&a.Reply) {
		k.Warn(w)
	}
}

// unsafeSettings returns a warning for each unsafe setting of a server.
func unsafeSettings(s *codec.SurveyReply) (found []Warning) {
	if s.MaxMemory > 0 && evicts(s.Policy) {
		found = append(found, Warning{
			What:        "the server can evict locks when its memory is full",
			Seen:        fmt.Sprintf("maxmemory-policy %s with maxmemory %d", s.Policy, s.MaxMemory),
			Consequence: "a lock can disappear while it is held, and be granted to someone else",
			Remedy:      "set maxmemory-policy to noeviction, or give locks a server of their own",
		})
	}
	if s.Role == "slave" {
		found = append(found, Warning{
			What:        "the server is a replica",
			Seen:        "role " + s.Role,
			Consequence: "it refuses writes, so no lock can be acquired",
			Remedy:      "connect to the master, directly or through Sentinel or Cluster",
		})
	}
	return found
}

// evicts reports whether a maxmemory policy deletes keys that have an expiry, as locks do.
func evicts(policy string) bool {
	return strings.HasPrefix(policy, "allkeys-") || strings.HasPrefix(policy, "volatile-")
}
