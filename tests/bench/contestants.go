package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/quorum"
)

// ttl is the lease time of every contestant's locks.
const ttl = 10 * time.Second

// pollInterval is how often the bare commands poll, and the peers that are tuned to poll.
const pollInterval = 2 * time.Millisecond

// locker is a contestant in one process. It has locks by name. Functions that no cell of the contestant calls are nil.
type locker struct {
	lock, reader, writer func(name string) lock
	close                func()
	quorum               *quorum.Quorum // of Holdfast, on several servers
}

// lock is one goroutine's handle of a lock. It remembers that the lock is held, so that a cycle need not allocate for that.
type lock interface {
	acquire(ctx context.Context) error // waits
	release() error
}

// lease is a lock that is renewed while it is held.
type lease interface {
	lock
	lost() bool
}

// handle is a lock made of functions. isLost is nil if the lock is not renewed.
type handle struct {
	take   func(ctx context.Context) error
	free   func() error
	isLost func() bool
}

func (h *handle) acquire(ctx context.Context) error { return h.take(ctx) }

func (h *handle) release() error { return h.free() }

func (h *handle) lost() bool { return h.isLost() }

// again calls try until it succeeds, ctx ends, or it fails with another error than taken. It waits in between.
func again(ctx context.Context, taken error, wait time.Duration, try func() error) error {
	for {
		err := try()
		if err == nil || !errors.Is(err, taken) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

var (
	errTaken   = errors.New("somebody has the lock")
	errNotHeld = errors.New("the lock is not held")
)

type role int

const (
	ours  role = iota
	floor      // the two bare commands
	peer
	outside // a lock on another kind of server
)

type contestant struct {
	name     string
	role     role
	client   string // the Redis client that it uses
	notified bool   // waiters are told when the lock is free: they do not poll
	noLocal  bool   // local hand-over is off
	only     string // the cells that it takes part in, separated by commas; all but queue if empty
	sends    string // a command that it sends, besides scripts
	etcd     bool   // it uses etcd instead of Redis
	java     bool   // it is java/Contestant.java: one process, which has all turns
	program  string // another build of this program, whose contestant it is; "" for this one
	open     func(j job) (*locker, error)
}

// contestants are all that are compared. redsync and redislock do not renew locks, so they are not in held.
var contestants = []contestant{
	{name: "holdfast-goredis", role: ours, client: "go-redis", notified: true, open: holdfastOverGoredis(0)},
	{name: "holdfast-goredis-nolocal", role: ours, client: "go-redis", notified: true, noLocal: true, only: "contended,one", open: holdfastOverGoredis(-1)},
	{name: "holdfast-rueidis", role: ours, client: "rueidis", notified: true, open: holdfastOverRueidis(0)},
	{name: "holdfast-rueidis-nolocal", role: ours, client: "rueidis", notified: true, noLocal: true, only: "contended,one", open: holdfastOverRueidis(-1)},
	{name: "holdfast-goredis-metrics", role: ours, client: "go-redis", notified: true, only: "observed", open: holdfastObserved(false)},
	{name: "holdfast-goredis-traces", role: ours, client: "go-redis", notified: true, only: "observed", open: holdfastObserved(true)},
	{name: "holdfast-scripts", role: ours, client: "go-redis", notified: true, only: "queue", open: openScripts},
	{name: "bare-goredis", role: floor, client: "go-redis", only: "free,far,contended,one,cluster,memory", sends: "set", open: bareGoredis},
	{name: "bare-goredis-autopipeline", role: floor, client: "go-redis", only: "free", sends: "set", open: bareAutoPipeline},
	{name: "bare-rueidis", role: floor, client: "rueidis", only: "free,far,contended,one,cluster", sends: "set", open: bareRueidis},
	{name: "redsync", role: peer, client: "go-redis", only: "free,far,contended,one,quorum,memory", sends: "set", open: openRedsync},
	{name: "redsync-2ms", role: peer, client: "go-redis", only: "contended,one", sends: "set", open: openRedsyncTuned},
	{name: "redislock", role: peer, client: "go-redis", only: "free,far,contended,one,memory", open: openRedislock},
	{name: "redislock-2ms", role: peer, client: "go-redis", only: "contended,one", open: openRedislockTuned},
	{name: "rueidislock", role: peer, client: "rueidis", notified: true, only: "free,far,contended,one", open: openRueidislock(0)},
	{name: "rueidislock-1s", role: peer, client: "rueidis", notified: true, only: "free,held,crowd,memory", open: openRueidislock(time.Second)},
	{name: "redisson-scripts-goredis", role: peer, client: "go-redis", notified: true, only: "read,crowd,memory", open: redissonScriptsOverGoredis},
	{name: "redisson-scripts-rueidis", role: peer, client: "rueidis", only: "read", open: redissonScriptsOverRueidis},
	{name: "redisson", role: peer, notified: true, only: "free,contended,readwrite", java: true},
	{name: "etcd", role: outside, notified: true, only: "free,contended,held", etcd: true, open: openEtcd},
}

func named(name string) contestant {
	return contestants[slices.IndexFunc(contestants, func(c contestant) bool { return c.name == name })]
}

// in reports whether the contestant takes part in cells of this kind.
func (c contestant) in(kind string) bool {
	return c.only == "" && kind != "queue" || slices.Contains(strings.Split(c.only, ","), kind)
}

func (c contestant) usesJava() bool { return c.java }

func (c contestant) usesEtcd() bool { return c.etcd }

// has reports whether the rig has what the contestant needs.
func (v *rig) has(c contestant) bool {
	return (!c.usesJava() || v.java != nil) && (!c.usesEtcd() || v.etcd != "")
}

// dialGoredis and rueidisOption make clients with their defaults, for all contestants that use them. Several addresses are
// those of a Cluster.
func dialGoredis(addrs []string) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
}

func rueidisOption(addrs []string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: addrs}
}

// holdfastLocks returns the locks of the first client. Each closer is called after its client is closed.
func holdfastLocks(clients []*holdfast.Client, closers []func()) *locker {
	return &locker{
		lock:   func(name string) lock { return &holdfastLock{l: clients[0].Mutex(name)} },
		reader: func(name string) lock { return &holdfastLock{l: clients[0].RWMutex(name).Reader()} },
		writer: func(name string) lock { return &holdfastLock{l: clients[0].RWMutex(name).Writer()} },
		close: func() {
			for i, c := range clients {
				_ = c.Close(context.Background())
				closers[i]()
			}
		},
	}
}
