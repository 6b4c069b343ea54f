package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/resp"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// bench is a run: its flags, and the state that its experiments share.
type bench struct {
	prefix   string // of keys
	time     time.Duration
	leases   int // in held
	console  *console.Console
	progress *progress

	clients []*client // free and held use the first, contended uses all
	id      string    // the beginning of all locks' names
	names   []string  // of all locks, so that their keys can be deleted
	noCPU   string    // why the server's processor time is unknown; "" if it is known
	report  *report
}

// client is a client of the server, with connections of its own, and the two ways to lock through it.
type client struct {
	rdb   redis.UniversalClient
	locks *holdfast.Client
	ways  [2]locker
}

// The two ways to lock, which take turns: indexes of client.ways, and of results.
const (
	ours = iota // Holdfast
	bare        // the bare commands
)

// wayNames are the ways' names in the report and in the names of locks.
var wayNames = [2]string{"Holdfast", "bare"}

const (
	// ttl is the TTL of all locks. The locks of a run that is killed expire after this time.
	ttl = 10 * time.Second
	// commandTimeout is long, so that a server that stands still for a moment is measured instead of given up.
	commandTimeout = 5 * time.Second
	// closingTime bounds the time for releasing locks and deleting keys.
	closingTime = 5 * time.Second
)

// connect makes clients, and takes a lock in both ways, so that an unusable server is found before anything is measured. It returns what
// the server calls itself.
//
// The locks' names share a random beginning. A key prefix for each run would not do: the ACL of a locker does not allow its channels, and a
// run that is killed would leave a fence counter behind for ever.
func (b *bench) connect(ctx context.Context, servers []*connect.Server) (software string, err error) {
	b.id = "bench:" + strings.ToLower(rand.Text()[:12]) + ":"
	logger := b.console.Logger()
	for _, server := range servers {
		rdb := server.Client
		locks, err := server.Locks(&holdfast.Config{TTL: ttl, Prefix: b.prefix, Logger: logger, CommandTimeout: commandTimeout})
		if err != nil {
			return "", err
		}
		b.clients = append(b.clients, &client{rdb, locks, [2]locker{ours: holdfastLocker(locks), bare: bareLocker(rdb, b.key)}})
		logger = slog.New(slog.DiscardHandler) // the other clients would log the same as the first
	}
	first := b.clients[0]
	if _, is := first.rdb.(*redis.ClusterClient); is {
		b.noCPU = "a Cluster has several servers"
	}
	for _, way := range first.ways {
		if err := cycle(ctx, way(b.name("try"))); err != nil {
			return "", err
		}
	}
	hello, err := first.rdb.Do(ctx, "hello").Result()
	info := resp.Fields(hello)
	return printable.Line(info["server"]+" "+info["version"], 100), err
}

// name returns the name of a lock.
func (b *bench) name(what string) string {
	name := b.id + what
	b.names = append(b.names, name)
	return name
}

// key returns the key of the lock with that name.
func (b *bench) key(name string) string { return b.prefix + "{" + name + "}" }

// compare measures, in every round and for each of the results, both ways one right after the other. The way that goes first alternates
// from round to round. compare adds the results to the report even if it returns an error.
func (b *bench) compare(rounds int, results []*result, turn func(i, way int) (values, error)) error {
	defer func() {
		for _, r := range results {
			b.report.add(r)
		}
	}()
	for round := range rounds {
		for i, r := range results {
			b.progress.show(fmt.Sprintf("%s: round %d of %d", r.name(), round+1, rounds))
			var both [2]values
			for n := range both {
				way := (n + round) % len(both)
				var err error
				if both[way], err = turn(i, way); err != nil {
					r.addFaults(both)
					return err
				}
			}
			r.rounds = append(r.rounds, both)
			r.Rounds++
		}
	}
	return nil
}

// tryLock takes and releases a lock. Its error says what is wrong with the server.
func (b *bench) tryLock(ctx context.Context) error {
	lease, err := b.clients[0].locks.Mutex(b.name("why")).TryAcquire(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// close closes the clients and deletes every key that docs/PROTOCOL.md lists for the run's locks, because a released lock may leave a
// queue. The fence counter stays, because other locks use it, too. The error says why keys are left.
func (b *bench) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	var closing sync.WaitGroup
	for _, c := range b.clients {
		closing.Go(func() { _ = c.locks.Close(ctx) }) // locks that it could not release expire
	}
	closing.Wait()
	for some := range slices.Chunk(b.names, 500) {
		pipeline := b.clients[0].rdb.Pipeline()
		for _, name := range some {
			pipeline.Del(ctx, b.key(name), b.key(name)+":q") // one Cluster slot
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cpu is the processor time, in µs, that the server (for all its users) and this process have used so far. NaN means unknown.
type cpu struct{ server, client float64 }

func (b *bench) cpu(ctx context.Context) cpu {
	c := cpu{math.NaN(), math.NaN()}
	if used, ok := measure.ProcessCPU(); ok {
		c.client = measure.Micros(used)
	}
	if b.noCPU != "" {
		return c
	}
	text, err := b.clients[0].rdb.Info(ctx, "cpu").Result()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) { // the connection failed; the next call may succeed
		return c
	}
	if err == nil {
		c.server, err = parseCPU(text)
	}
	if err != nil {
		if b.noCPU = printable.Line(err.Error(), 120); strings.HasPrefix(b.noCPU, "NOPERM") {
			b.noCPU = "this user may not send INFO"
		}
	}
	return c
}

// serverCPU matches the fields of INFO cpu that are about the server process itself.
var serverCPU = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):(\d+(?:\.\d+)?)\r?$`)

// parseCPU returns the sum of these fields, in µs.
func parseCPU(text string) (used float64, err error) {
	found := serverCPU.FindAllStringSubmatch(text, -1)
	if len(found) != 2 {
		return math.NaN(), errors.New("the server's INFO does not have it")
	}
	for _, field := range found {
		seconds, _ := strconv.ParseFloat(field[1], 64) // it has digits only
		used += seconds * 1e6
	}
	return used, nil
}
