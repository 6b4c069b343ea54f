package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// scenario is something that a client meets. run returns what the client did wrong.
type scenario struct {
	name, shows string
	run         func(t *trial) error
	feature     string // what the client must implement; empty for mutexes
}

var scenarios = append([]scenario{
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
}, rwScenarios...)

// fences is the key of the fence counter.
const fences = "holdfast:fences"

// value is the form of a mutex's value. The fence is 0 if it was acquired on the free path, and not renewed yet.
var value = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^hf2:([A-Za-z0-9_-]{22}):(0|[1-9][0-9]*):([1-9][0-9]*):([^:]+):(\{.*\})(\+?)$`)
})

// held returns the parts of the lock's value.
func (t *trial) held() (token string, fence uint64, info string, err error) {
	text, err := t.rdb.Get(t.ctx, t.key).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, "", problemf("the client says that it has the lock, and the key %s does not exist", t.key)
	}
	if err != nil {
		return "", 0, "", problemf("the key %s: %v", t.key, err)
	}
	parts := value().FindStringSubmatch(text)
	if parts == nil {
		return "", 0, "", problemf("the key %s has a value of another form: %s", t.key, printable.Word(text, 300))
	}
	fence, err = strconv.ParseUint(parts[2], 10, 63)
	if err != nil {
		return "", 0, "", problemf("the fence of %s: %v", t.key, err)
	}
	return parts[1], fence, parts[5], nil
}

// lastFence returns the last fence of the counter; 0 if there is none.
func (t *trial) lastFence() (fence uint64, err error) {
	entries, err := t.rdb.XRevRangeN(t.ctx, fences, "+", "-", 1).Result()
	if err != nil {
		return 0, problemf("the counter %s: %v", fences, err)
	}
	if len(entries) > 0 {
		var ms, seq uint64
		_, err = fmt.Sscanf(entries[0].ID, "%d-%d", &ms, &seq)
		fence = ms*1000 + seq
	}
	return fence, err
}

func showsValue(t *trial) error {
	c, err := t.start()
	if err != nil {
		return err
	}
	tokens := map[string]bool{}
	for range 3 {
		fence, err := c.try(long)
		if err != nil {
			return err
		}
		token, inValue, info, err := t.held()
		if err != nil {
			return err
		}
		var about struct {
			Owner *string `json:"o"`
		}
		last, err := t.lastFence()
		if err != nil {
			return err
		}
		ttl, err := t.rdb.PTTL(t.ctx, t.key).Result()
		switch {
		case err != nil:
			return problemf("the expiry of %s: %v", t.key, err)
		case inValue != fence && inValue != 0:
			return problemf("the client says that its fence is %d; the lock's value has %d", fence, inValue)
		case ttl <= 0 || ttl > long && (inValue != 0 || ttl > long+long/20): // on the free path the client reckons the server's time
			return problemf("the lock expires in %s; the TTL is %s", ttl, long)
		case json.Unmarshal([]byte(info), &about) != nil || about.Owner == nil:
			return problemf(`the lock's value says %s about the holder, which is not JSON with an owner "o"`, printable.Word(info, 300))
		case last < fence:
			return problemf("the fence is %d, and the last one of the counter %s is %d", fence, fences, last)
		case tokens[token]:
			return problemf("the client has used a token twice")
		}
		tokens[token] = true
		if err := c.must("released", "release"); err != nil {
			return err
		}
		if n, err := t.rdb.Exists(t.ctx, t.key).Result(); err != nil || n != 0 {
			return problemf("after the release the key %s still exists (%v)", t.key, err)
		}
	}
	return nil
}

func keepsOut(t *trial) error {
	c, err := t.start()
	if err != nil {
		return err
	}
	if _, err := c.try(long); err != nil {
		return err
	}
	var refused *holdfast.HeldError
	if _, err := t.lock.TryAcquire(t.ctx); !errors.As(err, &refused) || refused.Holder.Foreign {
		return problemf("while the client has the lock, Holdfast's TryAcquire gets: %v", err)
	}
	if err := c.must("released", "release"); err != nil {
		return err
	}
	lease, err := t.acquire()
	if err != nil {
		return err
	}
	if err := c.must("held", "try %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := t.release(lease); err != nil {
		return err
	}
	t.note("another program", "has the lock by SET")
	if err := t.rdb.Set(t.ctx, t.key, "somebody", long).Err(); err != nil {
		return problemf("SET: %v", err)
	}
	if err := c.must("held", "try %d", long.Milliseconds()); err != nil {
		return err
	}
	if got, err := t.rdb.Get(t.ctx, t.key).Result(); got != "somebody" {
		return problemf("the client changed a lock that another program has: %s (%v)", printable.Word(got, 300), err)
	}
	return nil
}

func fencesRise(t *trial) error { return t.fencesRise("try", "try", "try", "try", "try") }

// fencesRise lets a client and Holdfast acquire the lock by turns, the client with each of these commands. Each fence must be
// above the one before.
func (t *trial) fencesRise(verbs ...string) error {
	c, err := t.start()
	if err != nil {
		return err
	}
	last := uint64(0)
	for _, verb := range verbs {
		fence, err := c.take(verb, long)
		if err != nil {
			return err
		}
		if err := c.must("released", "release"); err != nil {
			return err
		}
		lease, err := t.acquire()
		if err != nil {
			return err
		}
		if fence <= last || lease.Fence() <= fence {
			return problemf("the fence %d of the client's %s follows %d, and Holdfast's %d follows it", fence, verb, last, lease.Fence())
		}
		last = lease.Fence()
		if err := t.release(lease); err != nil {
			return err
		}
	}
	return nil
}

func queues(t *trial) error {
	lease, first, err := t.behind()
	if err != nil {
		return err
	}
	second, err := t.waiter(2)
	if err != nil {
		return err
	}
	last := lease.Fence()
	if err := t.release(lease); err != nil {
		return err
	}
	for _, c := range []*client{first, second} {
		fence, err := c.granted()
		if err != nil {
			return err
		}
		if fence <= last {
			return problemf("the fence %d of a hand-over follows %d", fence, last)
		}
		last = fence
		// The claim is short; the client has to make a lease of it.
		if err := t.until("a lease of its own length", func() (bool, error) {
			left, err := t.rdb.PTTL(t.ctx, t.key).Result()
			return left > long/2, err
		}); err != nil {
			return err
		}
		if err := c.must("released", "release"); err != nil {
			return err
		}
	}
	return t.waiting(0)
}

// A waiter may look now and then and check its subscription, and send a PING a second on each of three connections, as over rueidis.
const (
	quietFor     = 5 * time.Second
	quietAllowed = 5
	pingsAllowed = 15
)

// promised is longer than a claim, within which a waiter may have promised to look.
const promised = 2 * time.Second

func isQuiet(t *trial) error {
	lease, c, err := t.behind()
	if err != nil {
		return err
	}
	before, pinged := t.network.requests.Load(), t.network.pings.Load()
	if err := t.pause(quietFor); err != nil {
		return err
	}
	if n, pings := t.network.requests.Load()-before, t.network.pings.Load()-pinged; n > quietAllowed || pings > pingsAllowed {
		return problemf("while it waited, the client sent %d requests and %d PINGs in %s", n, pings, quietFor)
	}
	if err := t.release(lease); err != nil {
		return err
	}
	_, err = c.granted()
	return err
}

// short is the TTL of leases that are to end, or to be renewed, within a scenario.
const short = 5 * time.Second

// holder starts a client that has the lock for a short time, unless it renews its lease.
func (t *trial) holder() (c *client, fence uint64, err error) {
	if c, err = t.start(); err == nil {
		fence, err = c.try(short)
	}
	return c, fence, err
}

func renews(t *trial) error {
	c, fence, err := t.holder()
	if err != nil {
		return err
	}
	token, _, _, err := t.held()
	if err != nil {
		return err
	}
	if err := t.pause(short * 2); err != nil {
		return err
	}
	if err := c.must("yes", "holds"); err != nil {
		return err
	}
	now, inValue, _, err := t.held()
	if err != nil {
		return err
	}
	if inValue != fence {
		return problemf("the client says that its fence is %d; after renewals the lock's value has %d", fence, inValue)
	}
	if now != token {
		return problemf("the lock has another token than %s ago: the client lost it, and took it again", short*2)
	}
	return c.must("released", "release")
}

// A lease of lasting is renewed when a third of it has passed, and at the latest after renewed.
const (
	lasting = 30 * time.Second
	renewed = 20 * time.Second
)

// robbed starts a client, takes its lock away by rob, and waits until the client says that the lock is lost.
func (t *trial) robbed(what string, rob func() error) (*client, error) {
	c, err := t.start()
	if err != nil {
		return nil, err
	}
	if _, err := c.try(lasting); err != nil {
		return nil, err
	}
	t.note("another program", what)
	if err := rob(); err != nil {
		return nil, problemf("another program: %v", err)
	}
	for stop := time.Now().Add(renewed); ; {
		told, err := c.ask("holds")
		switch {
		case err != nil:
			return nil, err
		case told == "no":
			return c, nil
		case time.Now().After(stop):
			return nil, problemf("%s after another program %s, %s still answers %s to holds", renewed, what, c.who, printable.Word(told, 200))
		}
		if err := t.pause(200 * time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func losesToThief(t *trial) error {
	c, err := t.robbed("takes the lock by SET", func() error { return t.rdb.Set(t.ctx, t.key, "thief", long).Err() })
	if err != nil {
		return err
	}
	if _, err := c.ask("release"); err != nil && !errors.As(err, new(*clientError)) {
		return err
	}
	if got, err := t.rdb.Get(t.ctx, t.key).Result(); got != "thief" {
		return problemf("the client released a lock that another program has: its key is %q now (%v)", got, err)
	}
	return nil
}

func losesInOutage(t *trial) error {
	c, _, err := t.holder()
	if err != nil {
		return err
	}
	t.note("the network", "delivers nothing")
	heal := t.network.Partition()
	defer heal()
	if err := t.pause(short + time.Second); err != nil {
		return err
	}
	if err := c.must("no", "holds"); err != nil {
		return err
	}
	t.note("the network", "delivers")
	heal()
	lease, err := t.acquire()
	if err != nil {
		return err
	}
	if err := c.must("no", "holds"); err != nil {
		return err
	}
	return t.release(lease)
}

func diesWaiting(t *trial) error {
	lease, c, err := t.behind()
	if err != nil {
		return err
	}
	behind, err := t.waiter(2)
	if err != nil {
		return err
	}
	c.kill()
	if err := t.release(lease); err != nil {
		return err
	}
	if _, err := behind.granted(); err != nil {
		return err
	}
	return behind.must("released", "release")
}
