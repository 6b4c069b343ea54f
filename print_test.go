package holdfast_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
)

func TestHandlesPrintTheirNames(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	lease := acquire(t, c.Mutex("m"))
	theLatch := latch.New(c, "l", 2)
	registered, err := theLatch.Register(t.Context())
	must(t, err)
	theBarrier := barrier.New(c, "b", 2)
	joined, err := theBarrier.Join(t.Context())
	must(t, err)
	several := acquire(t, c.Multi([]string{"x", "y"}))
	equal(t, "the fences of one lock's lease", fmt.Sprint(lease.Fences()), fmt.Sprintf("map[m:%d]", lease.Fence()))
	for want, handle := range map[string]fmt.Stringer{
		fmt.Sprintf(`holdfast.Lease("x, y", fence %d)`, several.Fence()):             several,
		fmt.Sprintf("holdfast.Client(%s on %s)", s.prefix, s.server.Driver().Addr()): c,
		`holdfast.Lock("m")`:            c.Mutex("m"),
		`holdfast.Lock("a, b")`:         c.Multi([]string{"a", "b"}),
		`holdfast.Lock("rw")`:           c.RWMutex("rw").Reader(),
		`holdfast.RWMutex("rw")`:        c.RWMutex("rw"),
		`holdfast.Semaphore("s \"1\"")`: c.Semaphore(`s "1"`, 1),
		`once.Job("j")`:                 once.New(c, "j", once.Every(time.Hour)),
		`election.Election("e")`:        election.New(c.Mutex("e")),
		`latch.Latch("l")`:              theLatch,
		`barrier.Barrier("b")`:          theBarrier,
		fmt.Sprintf(`holdfast.Lease("m", fence %d)`, lease.Fence()):              lease,
		fmt.Sprintf(`holdfast.Lease("l", fence %d)`, registered.Lease().Fence()): registered,
		fmt.Sprintf(`holdfast.Lease("b", fence %d)`, joined.Lease().Fence()):     joined,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
			equal(t, fmt.Sprintf("%s of a %T", verb, handle), fmt.Sprintf(verb, handle), want)
		}
	}
	token := strings.Split(s.do("GET", s.key("m")), ":")[1]
	if len(token) < 20 {
		t.Fatalf("the lock's token is %q", token)
	}
	for _, value := range []any{*lease, *c.Mutex("m")} { // which nobody should copy
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%x"} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, token) || strings.Contains(text, fmt.Sprintf("%x", token)) {
				t.Errorf("%s of a %T shows the token: %s", verb, value, text)
			}
		}
	}
	release(t, lease, several, registered.Lease(), joined.Lease())
}
