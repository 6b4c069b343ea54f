// Command ratelimit calls an API that allows a few calls at a time. Several processes can do it: a semaphore counts the calls of
// all of them. With -serve it stands in for the API, and refuses a call too many.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

const (
	ttl     = 5 * time.Second  // how long the permits of a process that died stay taken
	pause   = time.Second      // after a call that failed
	timeout = 30 * time.Second // of a call
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}

func run(ctx context.Context) error {
	addr := flag.String("addr", "127.0.0.1:6379", "`address` of the Redis or Valkey server")
	api := flag.String("api", "http://127.0.0.1:8080", "`URL` to call")
	limit := flag.Int("limit", 3, "how many calls the API allows at a time")
	callers := flag.Int("callers", 8, "how many goroutines of this process call it")
	listen := flag.String("serve", "", "be the API, and serve on this `address`")
	takes := flag.Duration("takes", time.Second, "with -serve: how long a call takes")
	flag.Parse()
	log.SetPrefix(fmt.Sprintf("[%d] ", os.Getpid()))
	if *listen != "" {
		return serve(ctx, *listen, standIn(*limit, *takes))
	}

	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	defer rdb.Close()
	locks, err := holdfastgoredis.New(rdb, &holdfast.Config{TTL: ttl})
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	c := &caller{*api, &http.Client{Timeout: timeout}, locks.Semaphore("ratelimit", *limit).Permits(1)}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range *callers {
		all.Go(func() { cancel(c.callOn(ctx)) }) // the first that fails ends the others
	}
	all.Wait()
	return context.Cause(ctx)
}

// caller calls an API, with a permit for each call.
type caller struct {
	api    string
	client *http.Client
	permit *holdfast.Lock
}

// callOn calls the API until ctx ends. It returns an error that would not pass.
func (c *caller) callOn(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.permit.Do(ctx, c.call)
		switch {
		case err == nil || ctx.Err() != nil:
			continue
		case errors.Is(err, holdfast.ErrMismatch), errors.Is(err, holdfast.ErrDenied):
			return err // another process says another limit, or Redis does not let us in
		}
		log.Print(err)
		select {
		case <-time.After(pause): // without a permit, which others can use
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// call calls the API once.
func (c *caller) call(_ context.Context, lease *holdfast.Lease) error {
	// If the permit is lost, the call ends, because others may call by then. After Ctrl-C it goes on: the API would be busy with it
	// for a moment longer than the permit lasts.
	ctx := lease.Context(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api, nil)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil { // until then the API is busy with it
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", c.api, resp.Status)
	}
	log.Printf("%s: %s", c.api, resp.Status)
	return nil
}

// standIn returns a handler that stands in for the API: it serves so many calls at a time, and refuses the next.
func standIn(limit int, takes time.Duration) http.Handler {
	calls := make(chan struct{}, limit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case calls <- struct{}{}:
			defer func() { <-calls }()
		default:
			log.Print("a call too many")
			http.Error(w, "too many calls at a time", http.StatusTooManyRequests)
			return
		}
		log.Printf("%d of %d calls", len(calls), limit)
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
		}
	})
}

// serve serves HTTP until ctx ends.
func serve(ctx context.Context, addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	log.Printf("serving on http://%s", l.Addr())
	return s.Serve(l)
}
