package ui_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// A master of a Cluster is down, and has no replica. The list follows the locks of the others, and says that it is not whole.
func TestAMasterThatIsDown(t *testing.T) {
	t.Parallel()
	nodes := server.StartCluster(t, server.One(t), 3)
	var addrs []string
	for _, s := range nodes {
		addrs = append(addrs, s.Addr())
	}
	locks := func(owner string) *holdfast.Client {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		t.Cleanup(func() { _ = rdb.Close() })
		cfg := &holdfast.Config{Identity: owner, TTL: 30 * time.Second, CommandTimeout: 6 * time.Second, RetryTimeout: time.Second}
		return backend.New(t, cfg, drivertest.Of(holdfastgoredis.NewDriver(rdb)))
	}
	holder := locks("zoe")
	n := 0
	// on acquires a new lock whose key is on that master, and returns its name.
	on := func(master int) string {
		t.Helper()
		for {
			n++
			name := fmt.Sprintf("lock-%02d", n)
			if int(keys.Slot("holdfast:{"+name+"}"))*3/keys.Slots == master {
				lease := backend.Acquire(t, holder.Mutex(name))
				t.Cleanup(func() { _ = lease.Release(context.Background()) })
				return name
			}
		}
	}
	lost, second, third := on(0), on(1), on(2) // in order of names
	page := open(t, serve(t, inspect.New(locks("inspector")), &ui.Options{}).URL+"/", 1280, 800)
	page.lists(lost, second, third)
	nodes[0].Kill() // the first that is searched
	page.sees("Only some of the locks can be looked at. What you see of the others is as of")
	page.sees(nodes[0].Addr())
	page.sees("Not all")
	fourth := on(2)
	page.lists(lost, second, third, fourth)
	page.until("it does not look whole", `document.body.classList.contains("outdated")`)

	late := open(t, serve(t, inspect.New(locks("late")), &ui.Options{}).URL+"/", 1280, 800)
	late.sees("Only some of the locks can be looked at. The others are not listed")
	late.lists(second, third, fourth)
}
