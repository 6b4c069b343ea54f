package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/driver"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// A holder that is late shows a lower fence than the resource has seen.
func Example() {
	ctx := context.Background()
	var marks fence.Memory
	first := fence.Stamp{Lock: "ledger", Fence: 33, Owner: "a"} // as fence.Of takes it from a lease
	second := fence.Stamp{Lock: "ledger", Fence: 34, Owner: "b"}

	fmt.Println(marks.Raise(ctx, first, "ledger"))
	fmt.Println(marks.Raise(ctx, second, "ledger"))
	err := marks.Raise(ctx, first, "ledger") // it was paused meanwhile
	fmt.Println(err)
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// <nil>
	// holdfast: "ledger" refuses fence 33 of lock "ledger", shown by a: it has seen 34 of b
	// true
}

// A server whose handlers run for the latest holder only.
func ExampleGuard() {
	guard := &fence.Guard{
		Marks: &fence.Memory{},
		Lock: func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return "" // anybody may read
			}
			return "ledger"
		},
	}
	server := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stamp, _ := fence.StampFrom(r.Context())
		fmt.Fprintf(w, "served under fence %d\n", stamp.Fence)
	})))
	defer server.Close()

	for _, number := range []string{"33", "34", "33", ""} {
		r, err := http.NewRequest(http.MethodPut, server.URL, strings.NewReader("100"))
		if err != nil {
			log.Fatal(err)
		}
		if number != "" { // a Transport does this
			r.Header.Set(fence.HeaderFence, number)
			r.Header.Set(fence.HeaderLock, "ledger")
			r.Header.Set(fence.HeaderOwner, "a")
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Printf("%d %s", resp.StatusCode, text)
	}
	// Output:
	// 200 served under fence 33
	// 200 served under fence 34
	// 412 Fence 33 of the lock "ledger" is stale: 34 has been seen. The lease is over; do not repeat this request.
	// 428 This request has to be made under a lease of the lock "ledger", with its fence in the header.
}

// A client whose requests carry the fence of the lease under which they are made.
func ExampleTransport() {
	var lock *holdfast.Lock // locks.Mutex("ledger")
	client := &http.Client{Transport: &fence.Transport{}}

	put := func(ctx context.Context) error {
		return lock.Do(ctx, func(ctx context.Context, lease *holdfast.Lease) error {
			r, err := http.NewRequestWithContext(fence.NewContext(ctx, lease), http.MethodPut, "https://ledger.example/total", strings.NewReader("100"))
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err // ErrLost, when the lease is over
			}
			defer resp.Body.Close()
			return fence.ResponseError(resp) // ErrStale, when another holder has been there
		})
	}
	_ = put
}

// Any statements, guarded by a mark which the transaction holds.
func ExampleSQL_Do() {
	var db *sql.DB
	marks := &fence.SQL{DB: db, Placeholders: fence.Dollar} // PostgreSQL

	post := func(ctx context.Context, lease *holdfast.Lease) error {
		stamp, err := fence.Of(lease)
		if err != nil {
			return err
		}
		return marks.Do(ctx, stamp, "ledger", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE ledger SET total = total + $1 WHERE id = $2", 50, 1)
			return err
		})
	}
	_ = post
}

// A row with a mark of its own, which needs no transaction.
func ExampleTable_Update() {
	var db *sql.DB
	ledger := &fence.Table{Name: "ledger", Placeholders: fence.Dollar}

	post := func(ctx context.Context, lease *holdfast.Lease) error {
		stamp, err := fence.Of(lease)
		if err != nil {
			return err
		}
		row := fence.Columns{"id": 1}
		if err := ledger.Raise(ctx, db, stamp, row); err != nil { // before reading
			return err
		}
		var total int
		if err := db.QueryRowContext(ctx, "SELECT total FROM ledger WHERE id = $1", 1).Scan(&total); err != nil {
			return err
		}
		return ledger.Update(ctx, db, stamp, row, fence.Columns{"total": total + 50})
	}
	_ = post
}

// A script of one's own, which runs only for the latest holder.
func ExampleRedis_Run() {
	var d driver.Driver // of holdfastgoredis.NewDriver(rdb)
	guard := fence.NewRedis(d, nil)
	push := fence.NewScript("return redis.call('RPUSH', KEYS[1], ARGV[1])")

	add := func(ctx context.Context, lease *holdfast.Lease, item string) (length string, err error) {
		stamp, err := fence.Of(lease)
		if err != nil {
			return "", err
		}
		return guard.Run(ctx, push, stamp, "items", []string{"items"}, []string{item})
	}
	_ = add
}
