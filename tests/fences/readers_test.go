package fences

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// lease is a lease that keeps its stamp for ever, as a late holder believes.
type lease struct{ stamp fence.Stamp }

func (l lease) Name() string     { return l.stamp.Lock }
func (l lease) Identity() string { return l.stamp.Owner }
func (l lease) Fence() uint64    { return l.stamp.Fence }
func (l lease) Err() error       { return nil }

func (l lease) Fences() map[string]uint64 { return map[string]uint64{l.Name(): l.Fence()} }

func (l lease) IsShared() bool { return l.stamp.Shared }

// resources are the ways to guard a resource. Each function reports whether a lease is accepted.
func resources(t *testing.T, b *backend.Backend, d *database) map[string]func(l fence.Lease) error {
	t.Helper()
	raise := func(m fence.Marks) func(fence.Lease) error {
		return func(l fence.Lease) error {
			s, err := fence.Of(l)
			if err != nil {
				return err
			}
			return m.Raise(t.Context(), s, "ledger")
		}
	}
	g := &fence.Guard{Marks: &fence.Memory{}, Lock: func(*http.Request) string { return "ledger" }}
	web := httptest.NewServer(g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(web.Close)
	client := &http.Client{Transport: &fence.Transport{}}
	return map[string]func(fence.Lease) error{
		"memory": raise(&fence.Memory{}),
		"Redis":  raise(fence.NewRedis(driverOf(t, b.Redis(t)), nil)),
		"SQL":    raise(d.marks()),
		"HTTP": func(l fence.Lease) error {
			r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), l), "GET", web.URL, nil)
			if err != nil {
				return err
			}
			answer, err := client.Do(r)
			if err != nil {
				return err
			}
			_ = answer.Body.Close()
			return fence.ResponseError(answer)
		},
	}
}

// late is a lease whose holder does not know that it is over.
type late struct{ *holdfast.Lease }

func (late) Err() error { return nil }

// Readers that hold the lock together are accepted in any order, and so is a writer that has become one of
// them; after the next writer none of them is.
func TestReadersDoNotShutEachOtherOut(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *database) {
		b := backend.One(t)
		here, there := b.Client(t, nil).RWMutex("ledger"), b.Client(t, nil).RWMutex("ledger")
		writer := backend.Acquire(t, here.Writer())
		into := resources(t, b, d)
		for name, enter := range into {
			expect.Err(t, name+": the writer", enter(writer), nil)
		}
		first := expect.Of(here.Downgrade(t.Context(), writer)).OK(t)
		second := backend.Acquire(t, there.Reader())
		if first.Fence() != second.Fence() || first.Identity() == second.Identity() {
			t.Fatalf("readers have the fences %d and %d, and the owners %q and %q", first.Fence(), second.Fence(), first.Identity(), second.Identity())
		}
		for name, enter := range into {
			for _, reader := range []*holdfast.Lease{second, first, second} {
				expect.Err(t, name+": a reader beside another", enter(reader), nil)
			}
		}
		backend.Release(t, first)
		backend.Release(t, second)
		next := backend.Acquire(t, there.Writer())
		for name, enter := range into {
			expect.Err(t, name+": the next writer", enter(next), nil)
			for _, reader := range []*holdfast.Lease{first, second} {
				expect.Err(t, name+": a late reader", enter(late{reader}), fence.ErrStale)
			}
		}
		backend.Release(t, next)
	})
}

// Leases that do not share a fence are told apart even if two have the same one, as after a loss of data.
func TestOnlyReadersShareAFence(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *database) {
		b := backend.One(t)
		for name, enter := range resources(t, b, d) {
			expect.Err(t, name, enter(lease{by("a", 5)}), nil)
			expect.Err(t, name+": another's fence that is the same", enter(lease{by("b", 5)}), fence.ErrStale)
		}
	})
}
