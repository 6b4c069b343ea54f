// Command scheduler orders a job from a worker again and again. Several processes can run: one leads and orders, the others stand
// by. The worker, which is this program with -serve, refuses the orders of a leader that has had a successor.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// name is that of the election, and so of the lock whose fences the worker compares.
const name = "scheduler"

const grace = 10 * time.Second // how long an order may take, also after Ctrl-C

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
	ttl := flag.Duration("ttl", 5*time.Second, "how long a leader that died keeps the others waiting")
	every := flag.Duration("every", time.Second, "time between two orders")
	worker := flag.String("worker", "http://127.0.0.1:8080", "`URL` of the worker")
	listen := flag.String("serve", "", "be the worker, and serve on this `address`")
	flag.Parse()
	log.SetPrefix(fmt.Sprintf("[%d] ", os.Getpid()))
	if *listen != "" {
		return serve(ctx, *listen, work())
	}

	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	defer rdb.Close()
	locks, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	s := &scheduler{
		client: &http.Client{Transport: &fence.Transport{}, Timeout: grace}, // puts the term's fence into each order
		job:    *worker + "/jobs/report",
		every:  *every,
	}
	log.Print("standing for election")
	// Run releases the lock when ctx ends: the next process leads at once.
	return election.New(locks.Mutex(name, holdfast.TTL(*ttl))).Run(ctx, s.lead)
}

// scheduler orders a job from a worker.
type scheduler struct {
	client *http.Client
	job    string // its URL
	every  time.Duration
}

// lead orders the job until the term ends. There is no other leader before its ctx has ended.
func (s *scheduler) lead(ctx context.Context, term *holdfast.Lease) error {
	log.Printf("leading, under fence %d", term.Fence())
	defer log.Print("no longer leading")
	ctx = fence.NewContext(ctx, term)
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := s.order(ctx)
		if errors.Is(err, fence.ErrStale) {
			return election.ErrResign // another process leads, and this one has not heard of it yet
		}
		if err != nil {
			log.Print(err) // the worker is down, and the next order may reach it
		}
		select {
		case <-tick.C:
		case <-term.Revoked():
			return election.ErrResign // an operator wants another process to lead
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// order orders the job once. The error matches fence.ErrStale if the worker has heard of a later leader.
func (s *scheduler) order(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.job, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := fence.ResponseError(resp); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", s.job, resp.Status)
	}
	return nil
}

// work returns the worker's handler, which runs jobs for the latest leader only.
func work() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{job}", func(w http.ResponseWriter, r *http.Request) {
		by, _ := fence.StampFrom(r.Context())
		log.Printf("running %q for %q, fence %d", r.PathValue("job"), by.Owner, by.Fence)
		w.WriteHeader(http.StatusNoContent)
	})
	guard := &fence.Guard{
		Marks:  &fence.Memory{}, // workers in several processes would share a fence.Redis or fence.SQL
		Lock:   func(*http.Request) string { return name },
		Report: func(_ *http.Request, err error) { log.Printf("refused: %v", err) },
	}
	return guard.Handler(mux)
}

// serve serves HTTP until ctx ends, and then lets requests finish.
func serve(ctx context.Context, addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	log.Printf("serving on http://%s", l.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return s.Shutdown(ctx)
}
