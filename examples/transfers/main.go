// Command transfers moves money from one account to another, which it locks one after the other. Two processes that transfer in
// opposite directions wait for each other. One of them is told, lets go and begins again; the other goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
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
	name := flag.String("name", fmt.Sprint("teller-", os.Getpid()), "the name of this process")
	ask := flag.Duration("ask", 3*time.Second, "how long the bank of the first account takes to answer")
	ignore := flag.Bool("ignore", false, "wait on in a deadlock")
	flag.Parse()
	from, to := flag.Arg(0), flag.Arg(1)
	if flag.NArg() != 2 || from == to {
		return errors.New("usage: transfers [flags] FROM TO, two accounts")
	}
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	log.SetPrefix("[" + *name + "] ")
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	defer rdb.Close()
	locks, err := holdfastgoredis.New(rdb, &holdfast.Config{Identity: *name, IgnoreDeadlocks: *ignore})
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	for {
		err := transfer(ctx, locks, from, to, *ask)
		var circle *holdfast.DeadlockError
		if !errors.As(err, &circle) {
			return err
		}
		log.Print(err)
	}
}

// transfer locks both accounts, the second within the lease of the first: the context says so.
func transfer(ctx context.Context, locks *holdfast.Client, from, to string, ask time.Duration) error {
	return locks.Mutex(from).Do(ctx, func(ctx context.Context, _ *holdfast.Lease) error {
		log.Printf("has locked %s", from)
		select {
		case <-time.After(ask):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return locks.Mutex(to).Do(ctx, func(context.Context, *holdfast.Lease) error {
			log.Printf("has transferred from %s to %s", from, to)
			return nil
		})
	})
}
