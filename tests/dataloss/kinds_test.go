package dataloss

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// loss is a way in which a server loses clients' data.
type loss struct {
	client func(*holdfast.Config) *holdfast.Client
	master *server.Server // until the loss
	before func()         // everything written after it is lost
	lose   func()
}

// eachLoss runs f with every kind of loss, on every server.
func eachLoss(t *testing.T, f func(t *testing.T, l loss)) {
	for how, open := range map[string]func(t *testing.T, bin server.Binary) loss{
		"restart without data": func(t *testing.T, bin server.Binary) loss {
			b := backend.Real(t, bin)
			return loss{func(cfg *holdfast.Config) *holdfast.Client { return b.Client(t, cfg) }, b.Server, func() {}, func() { b.Server.Kill(); b.Server.Restart() }}
		},
		"FLUSHALL": func(t *testing.T, bin server.Binary) loss {
			b := backend.Real(t, bin)
			return loss{func(cfg *holdfast.Config) *holdfast.Client { return b.Client(t, cfg) }, b.Server, func() {}, func() { do(t, b.Server, "FLUSHALL") }}
		},
		"failover to a replica that missed it": func(t *testing.T, bin server.Binary) loss {
			p := startPair(t, bin)
			return loss{p.client, p.servers[0], p.lag, p.fail}
		},
	} {
		t.Run(how, func(t *testing.T) {
			for _, bin := range server.Binaries(t) {
				t.Run(bin.Name, func(t *testing.T) {
					t.Parallel()
					f(t, open(t, bin))
				})
			}
		})
	}
}

// oldMasterDead returns the configuration of Strict clients for servers whose old master never goes on.
func oldMasterDead() *holdfast.Config {
	cfg := strict(term)
	cfg.Quarantine = term
	return cfg
}

// Fault: The server of any kind of lock loses its data, in Strict mode. Nothing is granted before the longest lease
// has ended, and by then no earlier holder believes in its lock.
func TestStrictHoldsForEveryKind(t *testing.T) {
	long(t)
	t.Parallel()
	eachLoss(t, func(t *testing.T, l loss) {
		everyKindIsKept(t, l.client(oldMasterDead()), l.client(oldMasterDead()), l.before, l.lose)
	})
}

func everyKindIsKept(t *testing.T, holder, other *holdfast.Client, before, lose func()) {
	t.Helper()
	initialise(t, holder)
	before()
	held := map[string]*holdfast.Lease{}
	pairs := backend.Pairs()
	for what, pair := range pairs {
		held[what] = backend.Acquire(t, pair.Held(holder))
	}
	leader := backend.Campaign(t.Context(), holder.Election("{a}/e"))
	lead, leading := leader.Elected(t)
	losing := time.Now()
	lose()
	waiting := map[string]<-chan *holdfast.Lease{}
	for what, pair := range pairs {
		backend.Eventually(t, "the server answers", func() bool {
			lease, err := pair.Wanted(other).TryAcquire(t.Context())
			if err == nil { // it took so long to come here
				grantedAfter(t, what, lease.Fence(), losing)
				if held[what].Err() == nil {
					t.Errorf("%s: both have it, the second with fence %d", what, lease.Fence())
				}
				backend.Release(t, lease)
			}
			return err == nil || errors.Is(err, holdfast.ErrQuarantine)
		})
		waiting[what] = backend.Start(t, pair.Wanted(other))
	}
	heir := backend.Campaign(t.Context(), other.Election("{a}/e"))
	for what, leases := range waiting {
		next := backend.Receive(t, leases)
		grantedAfter(t, what, next.Fence(), losing)
		if held[what].Err() == nil {
			t.Errorf("%s: two believe to have it", what)
		}
		if next.Fence() <= held[what].Fence() {
			t.Errorf("%s: fence %d follows %d", what, next.Fence(), held[what].Fence())
		}
		backend.Release(t, next)
	}
	next, _ := heir.Elected(t)
	grantedAfter(t, "the election", next.Fence(), losing)
	if leading.Err() == nil || next.Fence() <= lead.Fence() {
		t.Errorf("the leader before: %v; fence %d follows %d", leading.Err(), next.Fence(), lead.Fence())
	}
	heir.Answer <- nil
	leader.Answer <- context.Cause(leading) // and campaigns again
	leader.Elected(t)
	leader.Answer <- nil
}

// grantedAfter requires that a lock was granted no earlier than the quarantine after a loss of data allows. Its
// fence is the server's time of the grant, in µs, rounded down to a ms.
func grantedAfter(t *testing.T, what string, fence uint64, losing time.Time) {
	t.Helper()
	if d := time.UnixMicro(int64(fence)).Sub(losing.Truncate(time.Millisecond)); d < term {
		t.Errorf("%s: granted %s after the loss, within the quarantine of %s", what, d, term)
	}
}

// Fault: The lock of a job's run is lost with the server's data, in Strict mode. The run does not count, and the next
// one waits for the end of the quarantine.
func TestStrictJobsAfterALossOfData(t *testing.T) {
	long(t)
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(term))
		initialise(t, c)
		job := c.Once("j", holdfast.Slot("monday", time.Hour))
		var losing time.Time
		run, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
			losing = time.Now()
			do(t, b.Server, "FLUSHALL")
			return "done", nil
		})
		if err == nil || run.Here {
			t.Errorf("a run that lost its lock: %+v, %v", run, err)
		}
		other := b.Client(t, strict(term)).Once("j", holdfast.Slot("monday", time.Hour))
		run, err = other.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return "done", nil })
		if err != nil || !run.Here {
			t.Errorf("the next run: %+v, %v", run, err)
		}
		grantedAfter(t, "the next run", run.Fence, losing)
	})
}

// Fault: Replicas do not confirm a lock of any kind. It is neither granted nor kept, and a run that they have not
// confirmed does not count.
func TestMinReplicasHoldsForEveryKind(t *testing.T) {
	long(t)
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, bin)
			master, replica := p.servers[0], p.servers[1]
			do(t, master, "CONFIG", "SET", "min-replicas-to-write", "0")
			cfg := &holdfast.Config{CommandTimeout: 10 * time.Second}
			c, other := p.client(cfg), p.client(cfg)
			for what, pair := range backend.Pairs(holdfast.MinReplicas(1, 10*time.Second)) {
				lease := backend.Acquire(t, pair.Held(c))
				there := len(do(t, replica, "KEYS", "*{*").([]any))
				if all := len(do(t, master, "KEYS", "*{*").([]any)); there != all || all == 0 {
					t.Errorf("%s: the replica has %d of its %d keys", what, there, all)
				}
				backend.Release(t, lease)
			}
			plain, soon := backend.Pairs(), backend.Pairs(holdfast.MinReplicas(1, 100*time.Millisecond))
			replica.Pause()
			defer replica.Resume()
			for what, pair := range soon {
				if lease, err := pair.Wanted(other).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrReplicas) {
					t.Errorf("%s: TryAcquire without the replica: %v, %v", what, lease, err)
				}
				backend.Release(t, backend.Acquire(t, plain[what].Held(c))) // it was given back
				if lease, err := pair.Wanted(other).Acquire(t.Context()); !errors.Is(err, holdfast.ErrReplicas) {
					t.Errorf("%s: Acquire without the replica: %v, %v", what, lease, err)
				}
				lease := backend.Acquire(t, plain[what].Held(c))
				handed := make(chan error, 1)
				go func() {
					_, err := pair.Wanted(other).Acquire(t.Context())
					handed <- err
				}()
				backend.Waiters(t, pair.Seen(c), 1)
				backend.Release(t, lease)
				if err := <-handed; !errors.Is(err, holdfast.ErrReplicas) {
					t.Errorf("%s: Acquire of what is handed over without the replica: %v", what, err)
				}
			}
			job := c.Once("j", holdfast.Every(time.Hour), holdfast.MinReplicas(1, 100*time.Millisecond))
			ran := false
			backend.Eventually(t, "a run begins that the replica confirms in time", func() bool {
				replica.Resume()
				run, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					ran = true
					replica.Pause()
					return "", nil
				})
				if !errors.Is(err, holdfast.ErrReplicas) {
					t.Fatalf("a run that the replica does not confirm: %+v, %v", run, err)
				}
				return ran
			})
			backend.Eventually(t, "what was not confirmed is given back", func() bool {
				for _, key := range do(t, master, "KEYS", "*{*").([]any) {
					if key := key.(string); strings.HasSuffix(key, "}") || !strings.HasPrefix(key, "holdfast:") { // not a queue or a record
						return false
					}
				}
				return true
			})
		})
	}
}
