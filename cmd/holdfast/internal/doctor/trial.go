package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

const (
	trialTTL   = 3 * time.Second // how long a lock of the trial outlives a doctor that dies
	timings    = 100             // how often acquire and release are timed, within timingTime
	timingTime = time.Second
	handovers  = 5
	// slow is longer than a notified hand-over takes, and shorter than the time after which a waiter looks at the lock by itself. Two slow
	// hand-overs are taken for a fault.
	slow = trialTTL / 4
)

// checkTrial acquires, extends, releases and hands over a lock, and measures how long that takes.
func (s *server) checkTrial(ctx context.Context) []Finding {
	holder, err := s.e.client()
	if err != nil {
		return nil // impossible, because reach has made a client in the same way
	}
	waiter, err := s.e.client()
	if err != nil {
		return nil
	}
	defer closeAll(ctx, holder, waiter)

	locks := [2]*holdfast.Lock{holder.Mutex(s.name), waiter.Mutex(s.name)}
	cycle := func(extend bool) error {
		lease, err := locks[0].TryAcquire(ctx)
		if err != nil {
			return err
		}
		if extend {
			err = lease.Extend(ctx, trialTTL)
		}
		return errors.Join(err, lease.Release(ctx))
	}
	err = cycle(true) // not timed: it connects, and loads the scripts
	var took []time.Duration
	for began := time.Now(); err == nil && len(took) < timings && time.Since(began) < timingTime; {
		sent := time.Now()
		err = cycle(false)
		took = append(took, time.Since(sent))
	}
	if err != nil {
		return []Finding{s.failedTrial(err)}
	}
	latency := judgeLatency(s.roundTrip, took, s.e.TTL)
	handed, err := handOver(ctx, locks)
	if err != nil {
		return []Finding{latency, s.failedTrial(err)}
	}
	if late := len(handed) - 2; late >= 0 && handed[late] > slow {
		return []Finding{latency, warning("trial", fmt.Sprintf("waiters got a released lock only after %s", console.Duration(handed[late])),
			"waiters are not notified: they try when the lease may have expired, or poll",
			"see pubsub, acl and latency")}
	}
	return []Finding{latency, fine("trial", fmt.Sprintf("%s acquired and released; handed over in %s",
		console.Count(len(took), "lock"), console.Duration(handed[len(handed)/2])))}
}

// messageTime is how long a message may take to arrive.
const messageTime = 3 * time.Second

// checkPubSub subscribes to a channel as a waiter does, and publishes a message as a release does. The trial would not show that
// notifications are lost, because then waiters poll.
func (s *server) checkPubSub(ctx context.Context) Finding {
	subscribe, publish := s.client.Subscribe, s.client.Publish
	if s.e.Mode == connect.Cluster {
		subscribe, publish = s.client.SSubscribe, s.client.SPublish
	}
	failed := func(saw string) Finding {
		return warning("pubsub", saw, "waiters are not notified: they poll, and get the lock late and out of order",
			"connect to the server without a proxy; give the user the commands and channels that docs/SECURITY.md lists")
	}
	ps := subscribe(ctx, s.channel)
	defer ps.Close()
	if _, err := ps.ReceiveTimeout(ctx, messageTime); err != nil { // the confirmation
		return failed(because("SUBSCRIBE", err))
	}
	sent := time.Now()
	switch subscribers, err := publish(ctx, s.channel, "message").Result(); {
	case err != nil:
		return failed(because("PUBLISH", err))
	case subscribers == 0:
		return failed("the subscription is confirmed, but the server does not have it: a proxy keeps it")
	}
	if _, err := ps.ReceiveTimeout(ctx, messageTime); err != nil {
		return failed(because("the server has the subscription, but a message does not arrive", err))
	}
	return fine("pubsub", "a message arrives after "+console.Duration(time.Since(sent)))
}

// handOver hands a lock over from one client to the other, several times. It returns the times from the release until the waiter had the
// lock, sorted.
func handOver(ctx context.Context, locks [2]*holdfast.Lock) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*trialTTL)
	defer cancel()
	for late := 0; len(took) < handovers && late < 2; {
		lease, err := locks[0].Acquire(ctx)
		if err != nil {
			return nil, err
		}
		type result struct {
			at    time.Time
			lease *holdfast.Lease
			err   error
		}
		acquired := make(chan result, 1)
		go func() {
			lease, err := locks[1].Acquire(ctx)
			acquired <- result{time.Now(), lease, err}
		}()
		awaitWaiter(ctx, locks[0])
		began := time.Now()
		released := lease.Release(ctx)
		r := <-acquired
		if r.err != nil {
			return nil, errors.Join(released, r.err)
		}
		took = append(took, r.at.Sub(began))
		if r.at.Sub(began) > slow {
			late++
		}
		if err := errors.Join(released, r.lease.Release(ctx)); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return took, nil
}

// awaitWaiter waits until a waiter is in the lock's queue. It gives up soon, because a waiter that polls never is.
func awaitWaiter(ctx context.Context, l *holdfast.Lock) {
	for end := time.Now().Add(trialTTL / 4); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if s, err := l.Status(ctx); err != nil || !s.Held() || s.Waiting > 0 {
			return
		}
	}
}

// failedTrial returns the finding of a trial that failed. It leaves out the name of the trial's lock, which means nothing to people.
func (s *server) failedTrial(err error) Finding {
	remedy := "see the server's log, and the other findings"
	var server *holdfast.ServerError
	switch {
	case errors.Is(err, holdfast.ErrDenied):
		remedy = "give the user what docs/SECURITY.md lists"
	case errors.As(err, &server) && trialRemedies[server.Code] != "":
		remedy = trialRemedies[server.Code]
	}
	saw := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "holdfast: "), strconv.Quote(s.name), "a throwaway lock")
	return problem("trial", saw, "programs that take locks here fail in the same way", remedy)
}

// trialRemedies says what to do about a failed trial, by the server's error code.
var trialRemedies = map[string]string{
	"BADFENCE":   "see what set the fence counter, and delete it if no other program uses it",
	"READONLY":   "connect to the master, or through Sentinel or Cluster",
	"BUSY":       "SCRIPT KILL ends a script that has written nothing",
	"LOADING":    "wait until the server has loaded its data",
	"OOM":        "raise maxmemory, or find what fills it",
	"NOREPLICAS": "check the server's replicas",
	"MISCONF":    "check the server's disk",
}

// judgeLatency compares the time that an acquire and a release take with the TTL.
func judgeLatency(roundTrip time.Duration, took []time.Duration, ttl time.Duration) Finding {
	slices.Sort(took)
	slowest := took[len(took)*99/100]
	saw := fmt.Sprintf("round trip %s; acquire and release %s, p99 %s",
		console.Duration(roundTrip), console.Duration(took[len(took)/2]), console.Duration(slowest))
	const remedy = "SLOWLOG GET and LATENCY DOCTOR on the server; a longer TTL; a nearer server"
	// A renewal is sent when a third of the TTL has passed, and retried until the deadline.
	switch {
	case slowest > ttl/3:
		return problem("latency", saw,
			fmt.Sprintf("a renewal takes about as long as a lease with a TTL of %s has left: leases are lost", ttl), remedy)
	case slowest > ttl/30:
		return warning("latency", saw, fmt.Sprintf("if a renewal fails, few retries fit into the rest of a TTL of %s", ttl), remedy)
	}
	return fine("latency", saw)
}
