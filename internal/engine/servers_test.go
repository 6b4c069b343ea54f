package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// cluster is a fake with two masters that takes a millisecond to answer. One master has the locks whose names begin with "a".
type cluster struct {
	fake
	hangs atomic.Bool // the first master does not answer
}

// hang waits until ctx ends, if the master that has the key hangs.
func (d *cluster) hang(ctx context.Context, c driver.Call) error {
	if d.hangs.Load() && d.Node(c.Keys[0]) == "a" {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Millisecond)
	return nil
}

func (d *cluster) Probe(ctx context.Context) (driver.ServerInfo, error) {
	info, err := d.fake.Probe(ctx)
	info.Cluster = true
	return info, err
}

func (d *cluster) Node(key string) string {
	if key[len("holdfast:{")] == 'a' {
		return "a"
	}
	return "b"
}

func (d *cluster) Run(ctx context.Context, c driver.Call) (string, error) {
	if err := d.hang(ctx, c); err != nil {
		return "", err
	}
	return d.fake.Run(ctx, c)
}

// Fault: One master of a Cluster hangs, with more leases than can be renewed singly at once. Its leases are lost;
// those of the other master are renewed as before, together or singly.
func TestAMasterThatHangsHoldsUpNoRenewalsOfOthers(t *testing.T) {
	t.Run("together", func(t *testing.T) { testAMasterThatHangs(t, 2*maxRenewing, kind.Renew(true)) })
	t.Run("by themselves", func(t *testing.T) { testAMasterThatHangs(t, 8*maxRenewing, kind.MaxHold(time.Hour)) })
}

// testAMasterThatHangs has n leases at each of two masters. One of the masters hangs.
func testAMasterThatHangs(t *testing.T, n int, option kind.Option) {
	bubble(t, func(t *testing.T) {
		server := &cluster{fake: fake{holders: map[string]string{}}}
		c := open(t, server, nil)
		const ttl = 10 * time.Second
		leases := takeAll(t, 2*n, func(i int) Lock { return c.Mutex(fmt.Sprintf("%c%d", "ab"[i/n], i%n), kind.TTL(ttl), option) })
		server.hangs.Store(true)
		time.Sleep(3 * ttl)
		for _, l := range leases[:n] {
			// A renewal that is only sent when it is too late has not failed yet.
			if lost := (*lock.LostError)(nil); !errors.As(l.Err(), &lost) || lost.Reason != lock.LossUnreachable && lost.Reason != lock.LossExpired {
				t.Fatalf("%s, whose master hangs: %v", l.Name(), l.Err())
			}
		}
		for _, l := range leases[n:] {
			if l.Err() != nil {
				t.Fatalf("%s, whose master is well: %v", l.Name(), l.Err())
			}
		}
		server.hangs.Store(false)
		releaseAll(leases)
		wantErr(t, "Close", c.Close(t.Context()), nil)
	})
}
