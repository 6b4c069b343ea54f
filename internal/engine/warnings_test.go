package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// deafening is a fake whose subscriptions behave as the test says.
type deafening struct {
	fake
	subscribe func(driver.Subscription)
	receivers string
	down      func() bool // reports whether the server is out of reach
	cluster   bool
	elsewhere func() bool // in a Cluster: reports whether the lock is on a node that does not have the subscription
}

func (d *deafening) Probe(ctx context.Context) (driver.ServerInfo, error) {
	info, err := d.fake.Probe(ctx)
	info.Cluster = d.cluster
	return info, err
}

func (d *deafening) Subscribe(s driver.Subscription) (cancel func()) {
	go d.subscribe(s)
	return func() {}
}

func (d *deafening) Run(ctx context.Context, call driver.Call) (string, error) {
	if d.down() {
		return "", errors.New("no answer")
	}
	call.Args = slices.Clone(call.Args)
	call.Args[0] = strings.TrimSuffix(call.Args[0], "c") // the fake knows of no Cluster
	reply, err := d.fake.Run(ctx, call)
	receivers := d.receivers
	if d.elsewhere != nil && d.elsewhere() {
		receivers = "0"
	}
	return strings.Replace(reply, " 1 1 ours", " 1 "+receivers+" ours", 1), err
}

// A waiter that polls says so once, and says why. A waiter whose subscription comes back after an
// outage says nothing.
func TestWarnsOfPolling(t *testing.T) {
	never := func() bool { return false }
	for name, c := range map[string]struct {
		server *deafening
		want   string // in the warning; "" for none
	}{
		"heard": {&deafening{subscribe: confirm, receivers: "1", down: never}, ""},
		"not confirmed": {&deafening{subscribe: func(driver.Subscription) {}, receivers: "0", down: never},
			"no subscription is confirmed"},
		"confirmed by somebody else": {&deafening{subscribe: confirm, receivers: "0", down: never},
			"the server does not have it"},
		"in a slot that moves": {&deafening{subscribe: confirm, receivers: "1", down: never, cluster: true,
			elsewhere: downFrom(0, 20*time.Second)}, ""},
		"in a slot that never stops moving": {&deafening{subscribe: confirm, receivers: "1", down: never, cluster: true,
			elsewhere: downFrom(0, time.Hour)}, "is its slot being moved"},
		"refused": {&deafening{subscribe: func(s driver.Subscription) { s.Down(driver.ReplyError("NOPERM no channels")) }, receivers: "0", down: never},
			"ACL refuses the subscription"},
		"after an outage": {&deafening{
			subscribe: upUnless(downFrom(time.Second, 21500*time.Millisecond)),
			receivers: "1",
			down:      downFrom(time.Second, 20*time.Second),
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var said bytes.Buffer
				server := c.server
				server.holders = map[string]string{"holdfast:{a}": "somebody"}
				client := open(t, server, &lock.Config{Logger: slog.New(slog.NewTextHandler(&said, nil))})
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
				defer cancel()
				wantErr(t, "Acquire", errOf(client.Mutex("a").AcquireBy(ctx, time.Time{})), context.DeadlineExceeded)
				wantErr(t, "Close", client.Close(t.Context()), nil)
				expectWarning(t, withoutOutages(said.String()), c.want)
			})
		})
	}
}

// withoutOutages returns a log without what it says of outages.
func withoutOutages(said string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(said, "\n"), func(line string) bool { return strings.Contains(line, "holdfast: server ") })
	return strings.Join(lines, "")
}

// downFrom returns a function that is true from one time after its first call until another.
func downFrom(from, until time.Duration) func() bool {
	begun := sync.OnceValue(time.Now)
	return func() bool {
		since := time.Since(begun())
		return since >= from && since < until
	}
}

// upUnless returns a subscription that is up unless the server is down.
func upUnless(down func() bool) func(driver.Subscription) {
	return func(s driver.Subscription) {
		up := false
		for range 300 { // past the end of the outage, but not of the test
			switch now := !down(); {
			case now && !up:
				s.Up()
			case !now && up:
				s.Down(errors.New("connection lost"))
			}
			up = !down()
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func expectWarning(t *testing.T, said, want string) {
	t.Helper()
	if n := strings.Count(said, "\n"); want == "" && n != 0 || want != "" && n != 1 {
		t.Errorf("%d warnings:\n%s", n, said)
	}
	if !strings.Contains(said, want) {
		t.Errorf("said %q, without %q", said, want)
	}
}

// confirm confirms a subscription at once.
func confirm(s driver.Subscription) { s.Up() }
