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

// A late holder shows a lower fence than the resource has seen.
func Example() {
	ctx := context.Background()
	var marks fence.Memory
	first := fence.Stamp{Lock: "ledger", Fence: 33, Owner: "a"} // fence.Of takes one from a lease
	second := fence.Stamp{Lock: "ledger", Fence: 34, Owner: "b"}

	fmt.Println(marks.Raise(ctx, first, "ledger"))
	fmt.Println(marks.Raise(ctx, second, "ledger"))
	err := marks.Raise(ctx, first, "ledger") // the first holder was paused meanwhile
	fmt.Println(err)
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// <nil>
	// holdfast: resource "ledger" refused fence 33 of lock "ledger" from a: it has seen fence 34 from b
	// true
}

// The server's handlers run only for the latest holder.
func ExampleGuard() {
	guard := &fence.Guard{
		Marks: &fence.Memory{},
		Lock: func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return "" // reading needs no lock
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
		if number != "" { // what a Transport does
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
	// 412 holdfast: resource "ledger" refused fence 33 of lock "ledger" from a: it has seen fence 34 from a; do not repeat the request
	// 428 holdfast: request without a lease: this request needs a lease of lock "ledger"
}

// The client's requests carry the fence of the lease in their context.
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
				return err // matches ErrLost if the lease is over
			}
			defer resp.Body.Close()
			return fence.ResponseError(resp) // matches ErrStale if a later holder has been served
		})
	}
	_ = put
}

// A mark guards all statements of a transaction.
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

// The script runs only for the latest holder.
func ExampleRedis_Run() {
	var d driver.Driver // holdfastgoredis.NewDriver(rdb)
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
