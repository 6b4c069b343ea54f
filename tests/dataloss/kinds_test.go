package dataloss

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/options"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// loss is a way in which a server loses clients' data.
type loss struct {
	client func(*holdfast.Config) *holdfast.Client
	master *server.Server // until the loss
	before func()         // everything written after it is lost
	lose   func()
	keeps  bool // what was written before
}

// eachLoss runs f with the kinds of loss, on every server.
func eachLoss(t *testing.T, losses map[string]opener, f func(t *testing.T, l loss)) {
	t.Parallel()
	for how, open := range losses {
		t.Run(how, func(t *testing.T) {
			server.Each(t, func(t *testing.T, bin server.Binary) {
				f(t, open(t, bin))
			})
		})
	}
}

// opener starts a server that will lose its data.
type opener func(t *testing.T, bin server.Binary) loss

// outages are losses that clients notice: their connections end.
var outages = map[string]opener{
	"restart without data": func(t *testing.T, bin server.Binary) loss {
		b := backend.Real(t, bin)
		return loss{of(t, b), b.Server, func() {}, func() { b.Server.Kill(); b.Server.Restart() }, false}
	},
	"restart from an older file": func(t *testing.T, bin server.Binary) loss {
		b := backend.Real(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
		return loss{of(t, b), b.Server, func() { copyAOF(t, b.Server) }, func() {
			b.Server.Kill()
			restoreAOF(t, b.Server)
			b.Server.Restart()
		}, true}
	},
	"failover to a replica that missed it": func(t *testing.T, bin server.Binary) loss {
		p := startPair(t, bin)
		return loss{p.client, p.servers[0], func() {
			p.servers[0].AwaitInStep()
			p.lag()
		}, p.fail, true}
	},
}

// allLosses are outages, and one that nobody notices.
var allLosses = func() map[string]opener {
	all := maps.Clone(outages)
	all["FLUSHALL"] = func(t *testing.T, bin server.Binary) loss {
		b := backend.Real(t, bin)
		return loss{of(t, b), b.Server, func() {}, func() { do(t, b.Server, "FLUSHALL") }, false}
	}
	return all
}()

// of makes clients of a server.
func of(t *testing.T, b *backend.Backend) func(*holdfast.Config) *holdfast.Client {
	return func(cfg *holdfast.Config) *holdfast.Client { return b.Client(t, cfg) }
}

// everyPair returns a pair of every kind of lock.
func everyPair(with ...backend.OneServer) map[string]backend.Pair {
	all := backend.Pairs(with...)
	all["a mutex"] = backend.Alike(func(c *holdfast.Client) *holdfast.Lock {
		return c.Mutex("m", options.For[holdfast.MutexOption](with)...)
	})
	return all
}

// oldMasterDead returns the configuration of Strict clients for servers whose old master never goes on.
func oldMasterDead() *holdfast.Config {
	cfg := strict(term)
	cfg.Quarantine = term
	return cfg
}

// Fault: The server of any kind of lock comes back empty or with older data, is emptied by FLUSHALL, or a replica that missed locks
// is promoted, in Strict mode. Nothing is granted before the longest lease has ended, and by then no earlier holder believes in
// its lock.
//
// Bug: An unsynced replica is promoted, and grants what is held.
func TestStrictHoldsForEveryKind(t *testing.T) {
	long(t)
	eachLoss(t, allLosses, func(t *testing.T, l loss) {
		everyKindIsKept(t, l.client(oldMasterDead()), l.client(oldMasterDead()), l.before, l.lose)
	})
}

func everyKindIsKept(t *testing.T, holder, other *holdfast.Client, before, lose func()) {
	t.Helper()
	initialise(t, holder)
	before()
	held := map[string]*holdfast.Lease{}
	pairs := everyPair()
	for what, pair := range pairs {
		held[what] = backend.Acquire(t, pair.Held(holder))
	}
	leader := backend.Campaign(t.Context(), election.New(holder.Mutex("{a}/e")))
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
	heir := backend.Campaign(t.Context(), election.New(other.Mutex("{a}/e")))
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
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(term))
		initialise(t, c)
		job := once.New(c, "j", once.Slot("monday", time.Hour))
		var losing time.Time
		run, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
			losing = time.Now()
			do(t, b.Server, "FLUSHALL")
			return "done", nil
		})
		if err == nil || run.Here {
			t.Errorf("a run that lost its lock: %+v, %v", run, err)
		}
		other := once.New(b.Client(t, strict(term)), "j", once.Slot("monday", time.Hour))
		run, err = other.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return "done", nil })
		if err != nil || !run.Here {
			t.Errorf("the next run: %+v, %v", run, err)
		}
		grantedAfter(t, "the next run", run.Fence, losing)
	})
}
