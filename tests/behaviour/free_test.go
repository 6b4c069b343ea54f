package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// crowd runs do in n goroutines, and returns when all are done.
func crowd(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// Fault: A transaction, or a script, for several locks is refused as a whole because the user may not access one of its keys. The
// other locks are served all the same: acquires, renewals and releases.
func TestAForbiddenLockAmongOthers(t *testing.T) {
	soak.Nightly(t)
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		ctx, operator := t.Context(), b.Redis(t)
		allow := func(keys ...string) {
			t.Helper()
			rules := append([]string{"resetkeys", "~holdfast:fences"}, keys...)
			expect.OK(t, operator.ACLSetUser(ctx, "u", rules...).Err())
		}
		expect.OK(t, operator.ACLSetUser(ctx, "u", "on", ">secret", "+@all", "allchannels").Err())
		allow("~holdfast:*")
		p := proxy.New(t, b.Server.Addr())
		c := b.Client(t, nil, func(o *redis.Options) { o.Addr, o.Username, o.Password = p.Addr(), "u", "secret" })
		backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
		allow("~holdfast:{m*")
		p.DelayReplies(10 * time.Millisecond)
		const goroutines = 40
		leases := make([]*holdfast.Lease, goroutines)
		crowd(goroutines, func(i int) {
			name := fmt.Sprint("m", i)
			if i%10 == 5 {
				name = fmt.Sprint("forbidden", i)
			}
			lease, err := c.Mutex(name, holdfast.TTL(10*time.Second)).Acquire(ctx)
			switch {
			case i%10 == 5 && !errors.Is(err, holdfast.ErrDenied):
				t.Errorf("%s: %v", name, err)
			case i%10 != 5 && err != nil:
				t.Errorf("%s: %v", name, err)
			}
			leases[i] = lease
		})
		// Access to a held lock is withdrawn: the others are still renewed, and released.
		allow("~holdfast:{m1*", "~holdfast:{m2*", "~holdfast:{m3*", "~holdfast:{m4}*")
		mine := func(i int) bool { return i%10 != 5 && (i == 4 || i == 1 || i == 2 || i == 3 || i >= 10) }
		time.Sleep(20 * time.Second) // two TTLs
		crowd(goroutines, func(i int) {
			if leases[i] == nil {
				return
			}
			if err := leases[i].Err(); mine(i) && err != nil || !mine(i) && !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("m%d: %v", i, err)
			}
			if err := leases[i].Release(ctx); mine(i) && err != nil {
				t.Errorf("m%d: %v", i, err)
			}
		})
	})
}

// Fault: A proxy before the server refuses transactions, or closes the connection. Locks are acquired by scripts, and the log says so once.
func TestAProxyWithoutTransactions(t *testing.T) {
	// refusal makes a request of a command that the server answers with that error.
	refusal := func(text string) []byte {
		source := fmt.Sprintf("return redis.error_reply('%s')", text)
		return fmt.Appendf(nil, "*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(source), source)
	}
	for what, refuses := range map[string]func(request []byte) []byte{
		"closes":      func([]byte) []byte { return nil },
		"knows no":    func(r []byte) []byte { return withoutTransaction(r, refusal("ERR unknown command")) },
		"supports no": func(r []byte) []byte { return withoutTransaction(r, refusal("ERR transactions are unsupported")) },
	} {
		t.Run(what, func(t *testing.T) {
			s := server.Start(t, server.One(t))
			p := proxy.New(t, s.Addr())
			var tried atomic.Int64
			p.Filter(func(request []byte) []byte {
				if !bytes.Contains(request, []byte("\r\nMULTI\r\n")) {
					return request
				}
				tried.Add(1)
				return refuses(request)
			})
			var log journal
			c := backend.Open(t, log.config(), &redis.Options{Addr: p.Addr()})
			l := c.Mutex("a")
			for range 20 {
				backend.Release(t, backend.Acquire(t, l))
			}
			most := int64(1)
			if what == "closes" { // the first time it might be an accident
				most = 2
			}
			expect.Equal(t, "transactions", tried.Load(), most)
			if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "transactions") {
				t.Errorf("%d warnings:\n%s", n, log.String())
			}
			expect.Of(s.Do("EXISTS", "holdfast:{a}")).Is(t, "keys of the lock that are left", int64(0))
		})
	}
}

// withoutTransaction replaces the MULTI and the EXEC of a request.
func withoutTransaction(request, by []byte) []byte {
	for _, command := range []string{"MULTI", "EXEC"} {
		request = bytes.ReplaceAll(request, fmt.Appendf(nil, "*1\r\n$%d\r\n%s\r\n", len(command), command), by)
	}
	return request
}

// A transaction that is carried out, and of which a command fails, is no sign of a server without transactions.
func TestATransactionWithoutAFence(t *testing.T) {
	s := server.Start(t, server.One(t))
	p := proxy.New(t, s.Addr())
	var tried atomic.Int64
	p.Filter(func(request []byte) []byte {
		if bytes.Contains(request, []byte("\r\nMULTI\r\n")) {
			tried.Add(1)
		}
		// As if the stream took no later id.
		return bytes.ReplaceAll(request, []byte("\r\n$1\r\n*\r\n$1\r\ng\r\n"), []byte("\r\n$3\r\n0-0\r\n$1\r\ng\r\n"))
	})
	var log journal
	l := backend.Open(t, log.config(), &redis.Options{Addr: p.Addr()}).Mutex("a")
	for range 3 {
		backend.Release(t, backend.Acquire(t, l))
	}
	expect.Equal(t, "transactions", tried.Load(), 3)
	expect.Lacks(t, "the log", log.String(), "transactions")
}

// Who may run scripts by their source and not by their digest, or the other way, acquires no lock that could not be renewed.
func TestAUserWhoMayRunHalfOfTheScripts(t *testing.T) {
	for _, lacks := range []string{"evalsha", "eval"} {
		t.Run(lacks, func(t *testing.T) {
			s := server.Start(t, server.One(t))
			expect.OK(t, expect.ErrOf(s.Do("ACL", "SETUSER", "somebody", "on", ">secret", "~*", "&*", "+@all", "-"+lacks)))
			l := backend.Open(t, nil, &redis.Options{Addr: s.Addr(), Username: "somebody", Password: "secret"}).Mutex("a")
			_, err := l.TryAcquire(t.Context())
			if !errors.Is(err, holdfast.ErrDenied) || !strings.Contains(err.Error(), "'"+lacks+"'") || !strings.Contains(err.Error(), "docs/SECURITY.md") {
				t.Errorf("%v", err)
			}
			expect.Of(s.Do("EXISTS", "holdfast:{a}")).Is(t, "keys of the lock that are left", int64(0))
		})
	}
}

// asked returns how many scripts have run for locks. The others check a client's subscription, every 5 s, by PUBSUB NUMSUB.
func asked(s *server.Server) int64 {
	ran, checks := s.Scripts()
	return ran - checks
}

func TestAFreeLockCostsOneRoundTrip(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		l := c.Mutex("m")
		backend.Release(t, backend.Acquire(t, l)) // connects to the server, and loads the scripts
		settled(t, b, c)
		const cycles = 20
		var ran map[string]int64
		backend.Eventually(t, "cycles cost a request for each acquire and each release, if the machine does not stand still", func() bool {
			before, scripts := b.Server.CommandStats(), asked(b.Server)
			for range cycles {
				backend.Release(t, backend.Acquire(t, l))
			}
			ran = b.Server.CommandStats()
			for command := range ran {
				ran[command] -= before[command]
			}
			return asked(b.Server)-scripts+ran["exec"]+ran["delifeq"] == 2*cycles && ran["exec"] == cycles
		})
		if n := ran["delifeq"]; n != 0 && n != cycles {
			t.Errorf("%d DELIFEQ for %d cycles; want one for each release", n, cycles)
		}
		for _, command := range []string{"publish", "zadd", "subscribe"} {
			expect.Equal(t, command+" for cycles of a free lock", ran[command], 0)
		}
	})
}

// Each hand-over from client to client costs the same number of commands, however many clients wait.
//
// Bug: Waiting costs the server commands: the more wait, the more a turn takes.
func TestACrowdCostsNoMoreCommands(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		for _, n := range []int{3, 50} {
			var locks []*holdfast.Lock
			var counts []func() int64
			for range n {
				c, count := b.Counted(t, nil)
				locks, counts = append(locks, c.Mutex(fmt.Sprint("m", n))), append(counts, count)
			}
			sent := func() (all int64) {
				for _, count := range counts {
					all += count()
				}
				return all
			}
			lease := backend.Acquire(t, locks[0])
			waiting := make([]<-chan *holdfast.Lease, n)
			for i, l := range locks[1:] {
				waiting[i+1] = queue(t, l, i+1)
			}
			const handovers = 150
			before := sent()
			for k := range handovers {
				backend.Release(t, lease)
				lease = backend.Receive(t, waiting[(k+1)%n])
				waiting[k%n] = backend.Start(t, locks[k%n])
				time.Sleep(time.Millisecond) // until it is queued
			}
			if cost := sent() - before; cost > 2*handovers+2 { // the first one may cost more
				t.Errorf("%d clients wait: %d commands for %d hand-overs, want two for each", n-1, cost, handovers)
			}
			for k := handovers; k < handovers+n-1; k++ {
				backend.Release(t, lease)
				lease = backend.Receive(t, waiting[(k+1)%n])
			}
			backend.Release(t, lease)
		}
	})
}
