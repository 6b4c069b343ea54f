//go:build linux

package interop

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/transfer"
)

// peer is a program that does what docs/PROTOCOL.md says, with the scripts that docs/scripts has. Commands are followed by the kind:
// mutex, reader or writer. "granted" is followed by the time and the fence. "weigh KIND" is answered "weighed" or "held"; "detach MS"
// by "detached", the time and a ticket, which "adopt TICKET MS" adopts.
type peer struct {
	*rival
	name string
	rdb  *redis.Client
}

// A client in Python that was written from docs/PROTOCOL.md does with ours what conformance does not judge.
func TestAClientWrittenFromTheProtocol(t *testing.T) {
	t.Parallel()
	program := slices.Clone(setUp(t, "python"))
	program[len(program)-1] = "python/protocol.py"
	scripts := expect.Of(filepath.Abs("../../docs/scripts")).OK(t)
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		for name, f := range map[string]func(t *testing.T, p *peer){"weighs": weighs, "asserts-again": assertsAgain, "carries": carries} {
			t.Run(name, func(t *testing.T) {
				rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
				t.Cleanup(func() { _ = rdb.Close() })
				f(t, &peer{run(t, append(slices.Clone(program), s.Addr(), scripts, name)), name, rdb})
			})
		}
	}
}

// client returns a client of another process of ours.
func (p *peer) client(t *testing.T) *holdfast.Client {
	t.Helper()
	return backend.New(t, nil, drivertest.Of(holdfastgoredis.NewDriver(p.rdb)))
}

// A hold changes its weight.
func weighs(t *testing.T, p *peer) {
	reader := p.client(t).RWMutex(p.name).Reader()
	p.expect(t, "granted", "acquire writer 300000")
	leases := backend.Start(t, reader)
	backend.Waiters(t, reader, 1)
	p.expect(t, "weighed", "weigh reader")
	lease := backend.Receive(t, leases)
	p.expect(t, "held", "weigh writer")
	backend.Release(t, lease)
	p.expect(t, "weighed", "weigh writer")
	expect.Err(t, "TryAcquire beside a writer", expect.ErrOf(reader.TryAcquire(t.Context())), holdfast.ErrHeld)
	p.expect(t, "released", "release")
	backend.Release(t, backend.Acquire(t, reader))
}

// A lock is detached by one side and adopted by the other, while a third process waits for it.
func carries(t *testing.T, p *peer) {
	l, ours := p.client(t).Mutex(p.name, holdfast.TTL(5*time.Minute)), p.client(t)
	lease := backend.Acquire(t, l)
	waits := backend.Start(t, p.client(t).Mutex(p.name))
	backend.Waiters(t, l, 1)
	for range 2 {
		ticket := expect.Of(transfer.Detach(t.Context(), lease, time.Minute)).OK(t)
		text, err := ticket.MarshalText()
		expect.OK(t, err)
		p.Say(t, fmt.Sprintf("adopt %s 300000", text))
		adopted := p.line(t, "granted", hanging)
		if adopted[0] != "granted" || number(t, adopted[2]) <= int64(lease.Fence()) {
			t.Fatalf("of a lock that had fence %d they say %q", lease.Fence(), adopted)
		}
		expect.Err(t, "Adopt with a ticket that they have used", expect.ErrOf(transfer.Adopt(t.Context(), ours, ticket)), holdfast.ErrLost)
		p.expect(t, "lost", fmt.Sprintf("adopt %s 300000", text))
		p.Say(t, "detach 60000")
		detached := p.line(t, "detached", hanging)
		expect.Equal(t, "they say", detached[0], "detached")
		var theirs transfer.Ticket
		expect.OK(t, theirs.UnmarshalText([]byte(detached[2])))
		if lease, err = transfer.Adopt(t.Context(), ours, theirs); err != nil {
			t.Fatal(err)
		}
		expect.Rises(t, number(t, adopted[2]), int64(lease.Fence()))
		p.expect(t, "lost", fmt.Sprintf("adopt %s 300000", detached[2]))
	}
	backend.Release(t, lease)
	backend.Release(t, backend.Receive(t, waits))
}

// The server loses its data while the program holds a lock; the next renewal claims the lock again.
func assertsAgain(t *testing.T, p *peer) {
	l := p.client(t).Mutex(p.name)
	machine.Undisturbed(t, func() error {
		p.expect(t, "granted", "acquire mutex 3000")
		expect.OK(t, p.rdb.FlushAll(t.Context()).Err())
		backend.Eventually(t, "their next renewal", func() bool {
			_, err := backend.HolderOf(t.Context(), l)
			return err == nil
		})
		p.Say(t, "release")
		if line := p.line(t, "released", hanging); line[0] != "released" {
			return fmt.Errorf("their release, after their lock was asserted again: %q", line)
		}
		return nil
	})
}
