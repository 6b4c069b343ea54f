// Command lottery is a web service that draws a number for each day. Several processes can serve it: a day's number is drawn
// once, one draw runs at a time, and a process that is late cannot replace a number.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

const (
	ttl   = 5 * time.Second  // how long a process that died keeps others from drawing
	grace = 10 * time.Second // how long requests may take to finish after Ctrl-C
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	addr := flag.String("addr", "127.0.0.1:6379", "`address` of the Redis or Valkey server")
	listen := flag.String("http", "127.0.0.1:8080", "`address` to serve HTTP on")
	spin := flag.Duration("spin", 3*time.Second, "how long the drum turns")
	wait := flag.Duration("wait", time.Second, "how long a request waits while another draw runs")
	flag.Parse()
	log.SetPrefix(fmt.Sprintf("[%d] ", os.Getpid()))

	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	defer rdb.Close()
	locks, err := holdfastgoredis.New(rdb, &holdfast.Config{TTL: ttl})
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	driver, err := holdfastgoredis.NewDriver(rdb)
	if err != nil {
		return err
	}
	l := &lottery{
		rdb:   rdb,
		store: fence.NewRedis(driver, nil),
		drum:  locks.Mutex("lottery/drum", holdfast.Wait(*wait)),
		spin:  *spin,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /draws/{day}", l.show)
	mux.HandleFunc("POST /draws/{day}", l.draw)
	return serve(ctx, *listen, mux)
}

// lottery keeps the number of each day in Redis.
type lottery struct {
	rdb   *redis.Client
	store *fence.Redis   // refuses writes under a fence lower than it has seen
	drum  *holdfast.Lock // there is one drum, for all days
	spin  time.Duration
}

// show answers with the number of a day that was drawn.
func (l *lottery) show(w http.ResponseWriter, r *http.Request) {
	number, err := l.rdb.Get(r.Context(), key(r.PathValue("day"))).Result()
	switch {
	case errors.Is(err, redis.Nil):
		http.Error(w, "not drawn yet", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, number)
	}
}

// draw answers with the number of a day, and draws it first if nobody has.
func (l *lottery) draw(w http.ResponseWriter, r *http.Request) {
	day := r.PathValue("day")
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var number string
	err := l.drum.Do(r.Context(), func(ctx context.Context, lease *holdfast.Lease) (err error) {
		number, err = l.turn(ctx, lease, day)
		return err
	})
	if number == "" {
		refuse(w, err)
		return
	}
	if err != nil { // the release failed, but the number is in the store
		log.Print(err)
	}
	fmt.Fprintln(w, number)
}

// turn returns the number of a day, drawn now or earlier. The lease is the drum's.
func (l *lottery) turn(ctx context.Context, lease *holdfast.Lease, day string) (string, error) {
	stamp, err := fence.Of(lease)
	if err != nil {
		return "", err
	}
	// From now on the store refuses earlier holders, so what is read next stays true.
	if err := l.store.Raise(ctx, stamp, key(day)); err != nil {
		return "", err
	}
	number, err := l.rdb.Get(ctx, key(day)).Result()
	if !errors.Is(err, redis.Nil) {
		return number, err
	}
	log.Printf("%s: the drum turns, under fence %d", day, stamp.Fence)
	select {
	case <-time.After(l.spin):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", err
	}
	number = fmt.Sprintf("%06d", n)
	if err := l.store.Set(ctx, stamp, key(day), number, 0); err != nil {
		return "", err
	}
	log.Printf("%s: %s", day, number)
	return number, nil
}

func key(day string) string { return "lottery:" + day }

// refuse answers a request that got no number. The client may repeat it: if a number was stored all the same, it gets that one.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, fence.ErrStale): // this draw was cut short, and the error may also match ErrUnavailable
	case errors.Is(err, holdfast.ErrHeld):
		status = http.StatusConflict // another draw runs, and the error says whose
	case errors.Is(err, holdfast.ErrUnavailable):
		status = http.StatusServiceUnavailable // Redis does not answer, and nothing was drawn
	}
	log.Print(err)
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), status)
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
