package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

//go:embed lua/publish.lua
var publishScript string

// messageTime is how long a message may take to arrive.
const messageTime = 3 * time.Second

// checkPubSub subscribes to a channel, and has the server publish a message, as a release does for a waiter.
func (s *subject) checkPubSub(ctx context.Context) []report.Finding {
	const (
		notNotified = "waiters are not notified: they poll, and get the lock late and out of order"
		bypass      = "connect to the server without the proxy"
	)
	failed := func(saw, remedy string) []report.Finding {
		return []report.Finding{report.PubSub.Warning(saw, notNotified, remedy)}
	}
	ps := s.words.receive(s.Client)(ctx, s.channel)
	defer ps.Close()
	if err := receive(ctx, ps, func(m any) bool { _, ok := m.(*redis.Subscription); return ok }); err != nil {
		saw := report.Because(strings.ToUpper(s.words.subscribe), err)
		if report.IsDenied(err) {
			return failed(saw, "give the user subscribe, publish and the channels (docs/SECURITY.md)")
		}
		return failed(saw, bypass)
	}
	sent := time.Now()
	subscribers, err := s.Client.Eval(ctx, publishScript, []string{s.keys.Lock}, s.channel, "message", s.words.publish, s.words.countSubscribers).Int64()
	switch {
	case err != nil && report.IsDenied(err):
		return failed(report.Because("a script that publishes", err), "give the user publish, pubsub and the channels (docs/SECURITY.md)")
	case err != nil:
		return []report.Finding{report.PubSub.Unchecked("a script that publishes", err)}
	}
	err = receive(ctx, ps, func(m any) bool { _, ok := m.(*redis.Message); return ok })
	switch {
	case subscribers == 0:
		return failed("the subscription is confirmed, but the server does not have it: a proxy keeps it", bypass)
	case err != nil:
		return failed(fmt.Sprintf("the server has the subscription, but a message did not arrive within %s", messageTime), bypass)
	}
	return []report.Finding{report.PubSub.OK("a message arrives after " + short(time.Since(sent)))}
}

// receive waits for the message that is wanted.
func receive(ctx context.Context, ps *redis.PubSub, wanted func(any) bool) error {
	for end := time.Now().Add(messageTime); ; {
		m, err := ps.ReceiveTimeout(ctx, time.Until(end))
		if err != nil {
			return err
		}
		if wanted(m) {
			return nil
		}
	}
}
