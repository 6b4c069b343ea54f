package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// scenario is a situation in which a client is judged. run ends with failf if the client does something wrong.
type scenario struct {
	name, shows string
	run         func(t *trial)
	feature     string // what the client must implement; empty for mutexes
}

var scenarios = []scenario{
	{"value", "the lock's value, its expiry and the fence counter are as the protocol has them", showsValue, ""},
	{"exclusion", "a holder keeps others out, whoever they are, and is kept out by them", keepsOut, ""},
	{"fences", "every grant has a higher fence than those before", fencesRise, ""},
	{"young-lock", "a lock whose value has no fence yet is held, awaited and handed over like any", meetsYoungLock, ""},
	{"barging", "a lock that is free and awaited goes to the waiter", passesNoWaiter, ""},
	{"queue", "a waiter waits in the queue, in its turn, and a release hands the lock over to it", queues, ""},
	{"hand-over", "a release hands the lock over to a waiter that came meanwhile", handsOver, ""},
	{"quiet", "a waiter does not poll", isQuiet, ""},
	{"renewal", "a lease is renewed for as long as it is held, and its fence is in the value then", renews, ""},
	{"theft", "a holder whose lock was taken says so at its next renewal, and leaves the lock alone", losesToThief, ""},
	{"outage", "a holder that gets no answer does not rely on its lease for longer than it lasts", losesInOutage, ""},
	{"slow-reply", "a lease counts from its request, less the drift, and is released when it has ended", countsFromRequest, ""},
	{"lost-reply", "an acquire without a reply is neither forgotten nor believed", losesReply, ""},
	{"late-copy", "an acquire that went unanswered does not keep the lock after the release", refusesLateCopy, ""},
	{"give-up", "a waiter whose time is up leaves the queue", givesUp, ""},
	{"subscription", "a waiter enters the queue once its subscription is confirmed", subscribesFirst, ""},
	{"lost-subscription", "a waiter whose subscription is cut or silent subscribes again and looks", losesSubscription, ""},
	{"slow-message", "a grant that arrives after the end of its claim is ignored", ignoresLateGrant, ""},
	{"forged-grant", "a grant with an impossible fence is ignored", ignoresForgedGrants, ""},
	{"standby", "a waiter looks at the lock when a message tells it to", looksWhenTold, ""},
	{"dead-waiter", "a waiter that is killed does not keep the lock from those behind it", diesWaiting, ""},
	{"competition", "four processes take turns for a while: never two at once, and fences rise", competes, ""},
	{"semaphore", "permits are granted while some are free, each with a fence, and a waiter gets the next one", givesPermits, semaphore},
	{"rw-sharing", "readers share the lock and its fence, and one's release leaves it to the others", readersShare, rwmutex},
	{"rw-exclusion", "a writer keeps everyone out, and is kept out by everyone", writersExclude, rwmutex},
	{"rw-fences", "a writer's fence is above all before it, and a reader's above the last writer's", rwFencesRise, rwmutex},
	{"rw-queue", "a writer that waits is passed by no reader, and releases hand the lock over", writersAreNotPassed, rwmutex},
	{"rw-quiet", "a writer that waits does not poll", isQuiet, rwmutex},
	{"rw-renewal", "leases of both sides are renewed for as long as they are held", rwRenews, rwmutex},
	{"rw-loss", "a writer whose lock is deleted says so at its next renewal", losesDeleted, rwmutex},
	{"rw-outage", "a writer that gets no answer does not rely on its lease for longer than it lasts", losesInOutage, rwmutex},
	{"rw-expiry", "a reader or writer that is killed keeps others out until its lease ends, and no longer", rwExpires, rwmutex},
	{"rw-competition", "readers and writers take turns for a while: no writer beside another, and fences rise", competes, rwmutex},
}

// fences is the key of the fence counter.
const fences = "holdfast:fences"

// value matches a mutex's value. The fence is 0 if the mutex was acquired on the free path and has not been renewed.
var value = regexp.MustCompile(`^hf2:([A-Za-z0-9_-]{22}):(0|[1-9][0-9]*):([1-9][0-9]*):([^:]+):(\{.*\})(\+?)$`)

// held returns the parts of the lock's value.
func (t *trial) held() (token string, fence uint64, info string) {
	text, err := t.rdb.Get(t.ctx, t.key).Result()
	if errors.Is(err, redis.Nil) {
		failf("the client says that it has the lock, and the key %s does not exist", t.key)
	}
	check(err)
	parts := value.FindStringSubmatch(text)
	if parts == nil {
		failf("the key %s has a value of another form: %s", t.key, printable.Word(text, 300))
	}
	fence, err = strconv.ParseUint(parts[2], 10, 63)
	check(err)
	return parts[1], fence, parts[5]
}

// lastFence returns the latest fence of the counter; 0 if there is none.
func (t *trial) lastFence() (fence uint64) {
	for _, entry := range reply(t.rdb.XRevRangeN(t.ctx, fences, "+", "-", 1)) {
		var ms, seq uint64
		_, err := fmt.Sscanf(entry.ID, "%d-%d", &ms, &seq)
		check(err)
		fence = ms*1000 + seq
	}
	return fence
}

func showsValue(t *trial) {
	c := t.start()
	tokens := map[string]bool{}
	for range 3 {
		fence := c.try(long)
		token, inValue, info := t.held()
		var about struct {
			Owner *string `json:"o"`
		}
		last, ttl := t.lastFence(), reply(t.rdb.PTTL(t.ctx, t.key))
		switch {
		case inValue != fence && inValue != 0:
			failf("the client says that its fence is %d; the lock's value has %d", fence, inValue)
		case ttl <= 0 || ttl > long && (inValue != 0 || ttl > long+long/20): // on the free path the client reckons the server's time
			failf("the lock expires in %s; the TTL is %s", ttl, long)
		case json.Unmarshal([]byte(info), &about) != nil || about.Owner == nil:
			failf(`the lock's value says %s about the holder, which is not JSON with an owner "o"`, printable.Word(info, 300))
		case last < fence:
			failf("the fence is %d, and the last one of the counter %s is %d", fence, fences, last)
		case tokens[token]:
			failf("the client has used a token twice")
		}
		tokens[token] = true
		if c.release(); t.exists() {
			failf("after the release the key %s still exists", t.key)
		}
	}
}

func keepsOut(t *trial) {
	c := t.start()
	c.try(long)
	var refused *holdfast.HeldError
	if _, err := t.lock.TryAcquire(t.ctx); !errors.As(err, &refused) || refused.Holder.Foreign {
		failf("while the client has the lock, Holdfast's TryAcquire gets: %v", err)
	}
	c.release()
	lease := t.acquire()
	c.refused("try")
	t.release(lease)
	t.note("another program", "has the lock by SET")
	reply(t.rdb.Set(t.ctx, t.key, "somebody", long))
	c.refused("try")
	if got := reply(t.rdb.Get(t.ctx, t.key)); got != "somebody" {
		failf("the client changed a lock that another program has: %s", printable.Word(got, 300))
	}
}

func fencesRise(t *trial) { t.fencesRise("try", "try", "try", "try", "try") }

// fencesRise makes a client, with each of these commands, and Holdfast acquire the lock alternately. Each fence must be above the previous
// one.
func (t *trial) fencesRise(verbs ...string) {
	c := t.start()
	last := uint64(0)
	for _, verb := range verbs {
		fence := c.take(verb, long)
		c.release()
		lease := t.acquire()
		if fence <= last || lease.Fence() <= fence {
			failf("the fence %d of the client's %s follows %d, and Holdfast's %d follows it", fence, verb, last, lease.Fence())
		}
		last = lease.Fence()
		t.release(lease)
	}
}

func queues(t *trial) {
	lease, first := t.behind()
	second := t.waiter(2)
	last := lease.Fence()
	t.release(lease)
	for _, c := range []*client{first, second} {
		last = c.handedOver(last)
		// The client must extend the short claim to a lease.
		t.until("a lease of its own length", func() bool { return reply(t.rdb.PTTL(t.ctx, t.key)) > long/2 })
		c.release()
	}
	t.waiting(0)
}

// A waiter may look at the lock and check its subscription now and then, and send a PING a second on each of three connections, as rueidis
// does.
const (
	quietFor     = 5 * time.Second
	quietAllowed = 5
	pingsAllowed = 15
)

func isQuiet(t *trial) {
	lease, c := t.behind()
	before, pinged := t.network.requests.Load(), t.network.pings.Load()
	t.pause(quietFor)
	if n, pings := t.network.requests.Load()-before, t.network.pings.Load()-pinged; n > quietAllowed || pings > pingsAllowed {
		failf("while it waited, the client sent %d requests and %d PINGs in %s", n, pings, quietFor)
	}
	t.release(lease)
	c.granted()
}

func renews(t *trial) {
	c := t.start()
	fence := c.try(short)
	token, _, _ := t.held()
	t.pause(short * 2)
	c.holds()
	now, inValue, _ := t.held()
	if inValue != fence {
		failf("the client says that its fence is %d; after renewals the lock's value has %d", fence, inValue)
	}
	if now != token {
		failf("the lock has another token than %s ago: the client lost it, and took it again", short*2)
	}
	c.release()
}

// A lease with the TTL lasting is renewed when a third of the TTL has passed, and at the latest after the time renewed.
const (
	lasting = 30 * time.Second
	renewed = 20 * time.Second
)

// robbed starts a client, has another program take its lock away, and waits until the client says that the lock is lost.
func (t *trial) robbed(what string, rob func() error) *client {
	c := t.start()
	c.try(lasting)
	t.note("another program", what)
	check(rob())
	for stop := time.Now().Add(renewed); ; t.pause(200 * time.Millisecond) {
		told := c.ask("holds")
		if told == "no" {
			return c
		}
		if time.Now().After(stop) {
			failf("%s after another program %s, %s still answers %s to holds", renewed, what, c.who, printable.Word(told, 200))
		}
	}
}

func losesToThief(t *trial) {
	c := t.robbed("takes the lock by SET", func() error { return t.rdb.Set(t.ctx, t.key, "thief", long).Err() })
	c.tell("release")
	c.hear(t.answer, "an answer to the release")
	if got, err := t.rdb.Get(t.ctx, t.key).Result(); got != "thief" {
		failf("the client released a lock that another program has: its key is %q now (%v)", got, err)
	}
}

func losesInOutage(t *trial) {
	c := t.start()
	c.try(short)
	t.note("the network", "delivers nothing")
	heal := t.network.Partition()
	defer heal()
	t.pause(short + time.Second)
	c.must("no", "holds")
	t.note("the network", "delivers")
	heal()
	lease := t.acquire()
	c.must("no", "holds")
	t.release(lease)
}

func diesWaiting(t *trial) {
	lease, c := t.behind()
	behind := t.waiter(2)
	c.kill()
	t.release(lease)
	behind.granted()
	behind.release()
}
