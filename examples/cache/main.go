// Command cache is a web service that shows a catalog. It keeps the catalog in Redis, and imports it again when it is too old. Several
// processes can serve it: they read side by side, one of them imports, and no page mixes two imports.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

const (
	ttl   = 5 * time.Second  // how long a process that died keeps the others out
	grace = 10 * time.Second // how long requests may take to finish after Ctrl-C
)

// fresh is a key that exists while the catalog is complete and not too old.
const fresh = "catalog:fresh"

var products = []string{"apples", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey"}

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
	age := flag.Duration("age", 10*time.Second, "how old the catalog may become")
	takes := flag.Duration("takes", 2*time.Second, "how long an import takes")
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
	c := &catalog{rdb, fence.NewRedis(driver, nil), locks.RWMutex("catalog"), *age, *takes}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", c.show)
	return serve(ctx, *listen, mux)
}

// catalog is kept in Redis: a key for each product, and fresh.
type catalog struct {
	rdb   *redis.Client
	store *fence.Redis // refuses writes under a fence lower than it has seen
	lock  *holdfast.RWMutex
	age   time.Duration
	takes time.Duration
}

// show answers with all prices.
func (c *catalog) show(w http.ResponseWriter, r *http.Request) {
	page, err := c.page(r.Context())
	if err != nil {
		log.Print(err)
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, page)
}

// page returns the page, and imports the catalog first if it is too old.
func (c *catalog) page(ctx context.Context) (page string, err error) {
	err = c.lock.Reader().Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (err error) {
		page, err = c.read(ctx)
		return err
	})
	if !errors.Is(err, redis.Nil) {
		return page, err
	}
	err = c.lock.Writer().Do(ctx, func(ctx context.Context, lease *holdfast.Lease) error {
		stamp, err := fence.Of(lease)
		if err != nil {
			return err
		}
		// From now on no earlier writer can mark its import as complete.
		if err := c.store.Raise(ctx, stamp, fresh); err != nil {
			return err
		}
		if page, err = c.read(ctx); !errors.Is(err, redis.Nil) {
			return err // nil: another process has imported it while this one waited
		}
		if err := c.load(ctx, stamp); err != nil {
			return err
		}
		page, err = c.prices(ctx)
		return err
	})
	return page, err
}

// read returns the page, or redis.Nil if the catalog is too old. The caller has the lock.
func (c *catalog) read(ctx context.Context) (string, error) {
	if err := c.rdb.Get(ctx, fresh).Err(); err != nil {
		return "", err
	}
	return c.prices(ctx)
}

// prices returns the page as it is.
func (c *catalog) prices(ctx context.Context) (string, error) {
	var page strings.Builder
	for _, product := range products {
		price, err := c.rdb.Get(ctx, "catalog:"+product).Result()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&page, "%-8s %s\n", product, price)
	}
	return page.String(), nil
}

// load imports all prices, one by one, under the writer's stamp. If it fails, fresh does not exist, and the next writer starts over.
func (c *catalog) load(ctx context.Context, stamp fence.Stamp) error {
	log.Printf("importing, under fence %d", stamp.Fence)
	for _, product := range products {
		select {
		case <-time.After(c.takes / time.Duration(len(products))): // the shop's database is slow
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		price := fmt.Sprintf("%5.2f  import %d", 1+rand.Float64()*20, stamp.Fence)
		if err := c.store.Set(ctx, stamp, "catalog:"+product, price, 0); err != nil {
			return err
		}
	}
	log.Print("imported")
	return c.store.Set(ctx, stamp, fresh, "yes", c.age)
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
