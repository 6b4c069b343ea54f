package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/ring.lua
var ring string

// patience is how long a message may take.
const patience = 3 * time.Second

// notifications sends this machine a message by way of the node, as a release sends one
// to a waiter.
func (n *node) notifications(ctx context.Context) {
	subscribe, flag := n.rdb.Subscribe, ""
	command := "SUBSCRIBE"
	if n.x.cluster() != nil {
		subscribe, flag, command = n.rdb.SSubscribe, "c", "SSUBSCRIBE"
	}
	f := Finding{
		ID: "pubsub", Severity: Warning,
		Consequence: "waiters are not notified: they poll, get the lock late and out of order",
		Remedy:      "let pub/sub reach the server itself, past proxies",
	}
	ps := subscribe(ctx, n.channel)
	defer ps.Close()
	if err := receive(ctx, ps, func(m any) bool { _, ok := m.(*redis.Subscription); return ok }); err != nil {
		f.Saw = because(command, err)
		if refused(err) {
			f.Remedy = "give the user subscribe, publish and the channels (docs/SECURITY.md)"
		}
		n.add(f)
		return
	}
	sent := time.Now()
	heardBy, err := n.rdb.Eval(ctx, ring, []string{n.probe.Lock}, n.channel, "ring", flag).Int64()
	if err != nil && !refused(err) {
		n.add(unchecked("pubsub", "a script that publishes", err))
		return
	}
	if err != nil {
		f.Saw = because("a script that publishes", err)
		f.Remedy = "give the user publish, pubsub and the channels (docs/SECURITY.md)"
		n.add(f)
		return
	}
	err = receive(ctx, ps, func(m any) bool { _, ok := m.(*redis.Message); return ok })
	switch {
	case heardBy == 0:
		f.Saw = "the subscription is confirmed, but the server does not have it: a proxy keeps it"
	case err != nil:
		f.Saw = fmt.Sprintf("the server has the subscription, but a message did not arrive within %s", patience)
	default:
		f = Finding{ID: "pubsub", Severity: OK, Saw: "a message arrives after " + short(time.Since(sent))}
	}
	n.add(f)
}

// receive waits for the message that is wanted.
func receive(ctx context.Context, ps *redis.PubSub, wanted func(any) bool) error {
	for end := time.Now().Add(patience); ; {
		m, err := ps.ReceiveTimeout(ctx, time.Until(end))
		if err != nil {
			return err
		}
		if wanted(m) {
			return nil
		}
	}
}
