package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// surveyServer looks once, in the background, whether the server's settings are fit for
// locks, and warns of those that are not. It is no part of any acquire: it uses none of
// the application's connections, and what fails here is not told. In Cluster mode it
// asks the node of the first lock; holdfast doctor asks all.
func (c *Client) checkServer(l *Lock) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.tasks.Run(func() {
		select {
		case <-c.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	a, _, err := c.call(ctx, request{
		op: "survey", lock: l, script: script.Survey,
		args: []string{l.flags(""), ""}, urgent: true, lockOnly: true,
	})
	if err != nil || a.Word != "settings" {
		return
	}
	for _, w := range unsafeSettings(a.Rest()) {
		c.warn(w)
	}
}

// unsafeSettings reads what follows in a "settings" reply.
func unsafeSettings(reply string) (found []warning) {
	field := strings.Fields(reply)
	if len(field) != 3 {
		return nil
	}
	maxmemory, err := strconv.ParseUint(field[0], 10, 64)
	if policy := field[1]; err == nil && maxmemory > 0 && evicts(policy) {
		found = append(found, warning{
			what:        "the server deletes keys when its memory is full, locks among them",
			seen:        fmt.Sprintf("maxmemory-policy %s with maxmemory %d", policy, maxmemory),
			consequence: "a lock can vanish under its holder, and be granted to another",
			remedy:      "set maxmemory-policy to noeviction, or keep locks on a server of their own",
		})
	}
	if role := field[2]; role == "slave" {
		found = append(found, warning{
			what:        "the server is a replica",
			seen:        "role " + role,
			consequence: "it refuses writes, and with them every lock",
			remedy:      "connect to the master, or through Sentinel or Cluster",
		})
	}
	return found
}

// evicts reports whether a policy deletes keys that have an expiry, as locks do.
func evicts(policy string) bool {
	return strings.HasPrefix(policy, "allkeys-") || strings.HasPrefix(policy, "volatile-")
}

// silentPolls is how many polls are answered, while no subscription is confirmed, before a client warns.
const silentPolls = 3

// warnOfPolling warns of a server that answers, but on which this waiter does not hear
// notifications. After an outage a subscription may come back later than the first
// answers do.
func (acq *acquirer) warnOfPolling() {
	w := warning{
		what:        "waiters cannot be notified, and poll",
		consequence: "they get the lock late, have no place in the queue, and cost the server more",
		remedy:      "let pub/sub reach the server itself; Poll makes waiting without it explicit",
	}
	switch {
	case acq.sub.IsRefused():
		w.seen = "the server's ACL refuses the subscription"
		w.remedy = "allow subscribe, publish and the channels; see docs/SECURITY.md"
	case acq.subscriptionUnknown && acq.queue.c.server.InCluster():
		// While a slot moves key by key, its old node has the subscription, and its new one the lock. That passes.
		if time.Since(acq.pollingSince) < maxSleep {
			return
		}
		w.seen = "a subscription is confirmed, but the node that has the lock does not know of it; is its slot on the move, or a proxy before the Cluster?"
		w.remedy = "none if slots are being moved, since it ends with that; else let pub/sub reach the nodes themselves; Poll makes waiting without it explicit"
	case acq.subscriptionUnknown:
		w.seen = "a subscription is confirmed, but the server does not have it; is there a proxy before it?"
	case acq.polls >= silentPolls:
		w.seen = "no subscription is confirmed, while scripts are answered; is there a proxy before the server?"
	default:
		return
	}
	acq.queue.c.warn(w)
}
