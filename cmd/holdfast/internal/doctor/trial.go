package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// trialTTL is for how long a trial lock can outlive a doctor that dies.
	trialTTL = 3 * time.Second
	// cycles is how often things are timed, within enoughTime.
	cycles     = 100
	enoughTime = time.Second
	handovers  = 5
	// slow is what no hand-over takes that is notified, and what twice is no accident.
	slow = trialTTL / 2
)

// trial takes a lock on the node through all that it can go through, and times it.
func (n *node) trial(ctx context.Context) {
	pings, err := timed(ctx, func() error { return n.rdb.Ping(ctx).Err() })
	if err != nil && unsent(err) {
		n.add(unchecked("latency", "PING", err), failedTrial(errors.New(because("PING", err))))
		return
	}
	n.pings = pings
	holder, err := n.x.client(n.x.Client)
	if err != nil {
		return // reach had the same one
	}
	waiter, err := n.x.client(n.x.Client)
	if err != nil {
		return
	}
	name := strings.TrimSuffix(strings.TrimPrefix(n.probe.Lock, n.x.Prefix+"{"), "}")
	defer n.tidy(context.WithoutCancel(ctx), holder, waiter)

	locks := [2]*holdfast.Lock{holder.Mutex(name), waiter.Mutex(name)}
	cycle := func() error {
		lease, err := locks[0].TryAcquire(ctx)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	err = cycle() // connects, and loads the scripts
	var took []time.Duration
	if err == nil {
		took, err = timed(ctx, cycle)
	}
	if err == nil {
		err = n.extend(ctx, locks[0])
	}
	if err != nil {
		n.add(failedTrial(err))
		return
	}
	n.add(n.latency(pings, took))
	handed, err := handOver(ctx, locks)
	if err != nil {
		n.add(failedTrial(err))
		return
	}
	f := Finding{ID: "trial", Severity: OK, Saw: fmt.Sprintf("%s; handed over in %s",
		count(int64(len(took)), "lock")+" acquired and released", short(median(handed)))}
	if late := len(handed) - 2; late >= 0 && handed[late] > slow {
		f.Severity, f.Saw = Warning, fmt.Sprintf("waiters got a released lock after %s only", short(handed[late]))
		f.Consequence = "waiters are not notified: they look when the lease may have ended, or poll"
		f.Remedy = "see pubsub, acl and latency"
	}
	n.add(f)
}

// tidy ends the clients, and takes away what a trial in a Cluster leaves: a counter.
func (n *node) tidy(ctx context.Context, clients ...*holdfast.Client) {
	shut(ctx, clients...)
	if n.x.cluster() != nil {
		n.rdb.Del(ctx, n.probe.Fence()) // where it may not, it expires
	}
}

func (n *node) extend(ctx context.Context, l *holdfast.Lock) error {
	lease, err := l.TryAcquire(ctx)
	if err != nil {
		return err
	}
	return errors.Join(lease.Extend(ctx, trialTTL), lease.Release(ctx))
}

// handOver has one client wait for what the other holds, and returns how long it
// took from the release until it had it, sorted.
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
		got := make(chan result, 1)
		go func() {
			lease, err := locks[1].Acquire(ctx)
			got <- result{time.Now(), lease, err}
		}()
		queued(ctx, locks[0])
		begun := time.Now()
		released := lease.Release(ctx)
		r := <-got
		if r.err != nil {
			return nil, errors.Join(released, r.err)
		}
		took = append(took, r.at.Sub(begun))
		if r.at.Sub(begun) > slow {
			late++
		}
		if err := errors.Join(released, r.lease.Release(ctx)); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return took, nil
}

// queued waits until somebody waits for the lock; not for long, since one who polls
// does not stand in the queue.
func queued(ctx context.Context, l *holdfast.Lock) {
	for end := time.Now().Add(trialTTL / 4); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if s, err := l.Status(ctx); err != nil || !s.Held() || len(s.Waiters) > 0 {
			return
		}
	}
}

func failedTrial(err error) Finding {
	f := Finding{
		ID: "trial", Severity: Problem, Saw: strings.TrimPrefix(err.Error(), "holdfast: "),
		Consequence: "programs that take locks here fail in the same way",
	}
	f.Remedy = "see the server's log, and the other findings"
	var server *holdfast.ServerError
	switch {
	case errors.Is(err, holdfast.ErrDenied):
		f.Remedy = "give the user what docs/SECURITY.md lists"
	case errors.As(err, &server) && remedies[server.Code] != "":
		f.Remedy = remedies[server.Code]
	}
	return f
}

// remedies are for trials that fail, by what the server says.
var remedies = map[string]string{
	"READONLY":   "connect to the master, or through Sentinel or Cluster",
	"BUSY":       "SCRIPT KILL ends a script that has written nothing",
	"LOADING":    "wait until it has loaded its data",
	"OOM":        "raise maxmemory, or find what fills it",
	"NOREPLICAS": "see to its replicas",
	"MISCONF":    "see to its disk",
}

// timed calls f again and again and returns how long each call took.
func timed(ctx context.Context, f func() error) (took []time.Duration, err error) {
	begun := time.Now()
	for range cycles {
		sent := time.Now()
		if err := f(); err != nil {
			return took, err
		}
		took = append(took, time.Since(sent))
		if time.Since(begun) > enoughTime || ctx.Err() != nil {
			break
		}
	}
	slices.Sort(took)
	return took, nil
}

// latency compares how long things take with how long a lease lasts.
func (n *node) latency(pings, took []time.Duration) Finding {
	f := Finding{ID: "latency", Severity: OK, Saw: fmt.Sprintf("acquire and release %s, p99 %s", short(median(took)), short(p99(took)))}
	if len(pings) > 0 {
		f.Saw = fmt.Sprintf("PING %s, p99 %s; ", short(median(pings)), short(p99(pings))) + f.Saw
	}
	// A renewal is sent after a third of the TTL, and tried again until the deadline.
	switch slowest := p99(took); {
	case slowest > n.x.TTL/3:
		f.Severity = Problem
		f.Consequence = fmt.Sprintf("a renewal takes about as long as is left of a TTL of %s: leases are lost", n.x.TTL)
	case slowest > n.x.TTL/30:
		f.Severity = Warning
		f.Consequence = fmt.Sprintf("few tries fit into what is left of a TTL of %s when a renewal fails", n.x.TTL)
	}
	if f.Severity != OK {
		f.Remedy = "SLOWLOG GET and LATENCY DOCTOR on the server; a longer TTL; a server nearer by"
	}
	return f
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }
