package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/quorum"
)

// What goes wrong at the server, or on the way to it, is a ServerError that matches the error for what to do about it.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	all := []error{holdfast.ErrUnavailable, holdfast.ErrReplicas, holdfast.ErrQuarantine, holdfast.ErrDenied, holdfast.ErrMismatch,
		holdfast.ErrNotAdmitted, holdfast.ErrUnsupported, holdfast.ErrAmbiguous, holdfast.ErrHeld, holdfast.ErrLost}
	for _, c := range []struct {
		err  error
		code string
		is   []error
	}{
		{driver.ReplyError("LOADING Redis is loading the dataset in memory"), "LOADING", []error{holdfast.ErrUnavailable}},
		{driver.ReplyError("READONLY You can't write against a read only replica."), "READONLY", []error{holdfast.ErrUnavailable}},
		{driver.ReplyError("OOM command not allowed when used memory > 'maxmemory'."), "OOM", []error{holdfast.ErrUnavailable}},
		{driver.ReplyError("BUSY Redis is busy running a script."), "BUSY", []error{holdfast.ErrUnavailable}},
		{driver.ReplyError("MISCONF Redis is configured to save RDB snapshots"), "MISCONF", []error{holdfast.ErrUnavailable}},
		{driver.ReplyError("NOREPLICAS Not enough good replicas to write."), "NOREPLICAS", []error{holdfast.ErrUnavailable}},
		{driver.ReplyError("NOAUTH Authentication required."), "NOAUTH", []error{holdfast.ErrDenied}},
		{driver.ReplyError("WRONGPASS invalid username-password pair"), "WRONGPASS", []error{holdfast.ErrDenied}},
		{driver.ReplyError("NOPERM this user has no permissions to run the 'evalsha' command"), "NOPERM", []error{holdfast.ErrDenied}},
		{driver.ReplyError("ERR unknown command 'evalsha'"), "ERR", []error{holdfast.ErrUnsupported}},
		{io.ErrUnexpectedEOF, "", []error{holdfast.ErrUnavailable, holdfast.ErrAmbiguous}},
		{fmt.Errorf("%w: %w", driver.ErrNotSent, &net.OpError{Op: "dial", Err: errBroken}), "", []error{holdfast.ErrUnavailable}},
	} {
		s := newSpace(t)
		l := s.tapped(func(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
			if strings.Contains(call.Script.Name, "acquire") {
				return "", c.err
			}
			return next(ctx, call)
		}, func(cfg *holdfast.Config) { cfg.RetryTimeout = 5 * time.Millisecond }).Mutex("m")
		_, err := l.TryAcquire(t.Context())
		var refused *holdfast.ServerError
		if !errors.As(err, &refused) || !errors.Is(err, c.err) {
			t.Errorf("%v becomes %#v", c.err, err)
			continue
		}
		if refused.Op != "acquire" || refused.Name != "m" || refused.Server == "" || refused.Code != c.code || refused.Err == nil || refused.RetryAfter != 0 {
			t.Errorf("%v becomes %+v", c.err, refused)
		}
		var matches []error
		for _, target := range all {
			if errors.Is(err, target) {
				matches = append(matches, target)
			}
		}
		equal(t, err.Error()+" matches", fmt.Sprint(matches), fmt.Sprint(c.is))
		if text := err.Error(); !strings.HasPrefix(text, "holdfast: ") || !strings.Contains(text, `"m"`) || !strings.Contains(text, refused.Server) ||
			strings.Contains(text, "; the request may have been carried out") != errors.Is(err, holdfast.ErrAmbiguous) {
			t.Errorf("the text lacks the lock, the server, or what is known of the outcome: %s", text)
		}
	}
}

func TestTextsOfErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		`holdfast: lock "m" is held by me (pid 7 on host) for 5s unless renewed`: &holdfast.HeldError{Name: "m", Holder: holdfast.Holder{Identity: "me", PID: 7, Host: "host", TTL: 5 * time.Second}},
		`holdfast: lock "m" is held by me (pid 7) for 5s unless renewed`:         &holdfast.HeldError{Name: "m", Holder: holdfast.Holder{Identity: "me", PID: 7, TTL: 5 * time.Second}},
		`holdfast: lock "m" is held by me for good: its key has no expiry`:       &holdfast.HeldError{Name: "m", Holder: holdfast.Holder{Identity: "me", TTL: -1}},
		`holdfast: lock "m" is held by another program for 5s unless renewed`:    &holdfast.HeldError{Name: "m", Holder: holdfast.Holder{Foreign: true, TTL: 5 * time.Second}},
		`holdfast: others hold lock "m", or are queued for it`:                   &holdfast.HeldError{Name: "m"},
		`holdfast: lease of "m" lost: expired`:                                   &holdfast.LostError{Name: "m", Reason: holdfast.LossExpired},
		`holdfast: lease of "m" lost: not renewed: broken`:                       &holdfast.LostError{Name: "m", Reason: holdfast.LossUnreachable, Err: errBroken},
		`holdfast: lease of "m" lost: some reason`:                               &holdfast.LostError{Name: "m", Reason: "some reason"},
		`holdfast: acquire "m" on host: broken`:                                  &holdfast.ServerError{Op: "acquire", Name: "m", Server: "host", Err: errBroken},
		`holdfast: acquire "m": too few nodes answered as they should; 2 of 3 have to: node a; node b: broken`: &quorum.Error{
			Op: "acquire", Name: "m", Need: 2, Of: 3, Nodes: []*quorum.NodeError{{Server: "a"}, {Server: "b", Err: errBroken}}},
		`holdfast: acquire "m": too few nodes answered as they should; 2 of 3 have to: on a: broken`: &quorum.Error{
			Op: "acquire", Name: "m", Need: 2, Of: 3, Nodes: []*quorum.NodeError{{Server: "a", Err: &holdfast.ServerError{Op: "acquire", Name: "m", Server: "a", Err: errBroken}}}},
		`holdfast: latch "l" is open, but 1 of 2 parties never counted down: they left or died`: &latch.IncompleteError{Name: "l", Missing: 1, Parties: 2},
		`holdfast: phase 3 of barrier "b" is broken: party me has died`:                         &barrier.BrokenError{Name: "b", Phase: 3, Party: holdfast.Holder{Identity: "me"}, Died: true},
		`holdfast: phase 3 of barrier "b" is broken: party somebody has left`:                   &barrier.BrokenError{Name: "b", Phase: 3},
	} {
		equal(t, fmt.Sprintf("a %T", err), err.Error(), want)
	}
	for err, target := range map[error]error{
		&holdfast.HeldError{}: holdfast.ErrHeld, &holdfast.LostError{}: holdfast.ErrLost, &latch.IncompleteError{}: latch.ErrIncomplete,
		&barrier.BrokenError{}: barrier.ErrBroken, &holdfast.LostError{Err: errBroken}: errBroken,
		&holdfast.ServerError{Err: errBroken}: errBroken, &quorum.Error{Nodes: []*quorum.NodeError{{Err: errBroken}}}: errBroken,
	} {
		want(t, fmt.Sprintf("a %T", err), err, target)
		if target != holdfast.ErrClosed && errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a %T matches ErrClosed", err)
		}
	}
}

// What other programs wrote cannot control a terminal or fill a log.
func TestTextsShowOthersNamesSafely(t *testing.T) {
	t.Parallel()
	err := &holdfast.HeldError{Name: "m", Holder: holdfast.Holder{Identity: "\x1b[2J\n" + strings.Repeat("x", 10_000), PID: 1}}
	if text := err.Error(); strings.ContainsAny(text, "\x1b\n") || len(text) > 500 {
		t.Errorf("the text is %q", text)
	}
}

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
