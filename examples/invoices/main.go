// Command invoices writes an invoice for each order in a PostgreSQL database. Several processes can do it: one writes at a time,
// the numbers have no gaps, and a process that is late writes nothing.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

const (
	ttl   = 5 * time.Second // how long a worker that died keeps the others waiting
	pause = time.Second     // between two looks for orders, and after an error that may pass
)

// idle is how long PostgreSQL lets a worker be paused in a transaction, which blocks the next worker. It is shorter than ttl.
const idle = "3s"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	addr := flag.String("addr", "127.0.0.1:6379", "`address` of the Redis or Valkey server")
	dsn := flag.String("db", "postgres:///invoices", "`URL` of the PostgreSQL database, with the tables of schema.sql")
	printing := flag.Duration("print", time.Second, "how long it takes to print an invoice")
	flag.Parse()
	log.SetPrefix(fmt.Sprintf("[%d] ", os.Getpid()))

	cfg, err := pgx.ParseConfig(*dsn)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = idle
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	defer rdb.Close()
	locks, err := holdfastgoredis.New(rdb, &holdfast.Config{TTL: ttl})
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	w := &worker{db, &fence.SQL{DB: db, Placeholders: fence.Dollar}, locks.Mutex("invoices"), *printing}
	return w.work(ctx)
}

// worker writes invoices. Workers take turns, an invoice each.
type worker struct {
	db    *sql.DB
	marks *fence.SQL
	turn  *holdfast.Lock
	print time.Duration
}

// invoice is an invoice that is being written.
type invoice struct {
	number   int64
	order    int64
	customer string
	cents    int64
}

// work writes invoices until ctx ends. It returns an error that would not pass.
func (w *worker) work(ctx context.Context) error {
	for {
		err := w.turn.Do(ctx, w.writeNext)
		switch {
		case ctx.Err() != nil:
			log.Print("stopped")
			return nil
		case err == nil:
			continue
		case errors.Is(err, sql.ErrNoRows): // every order has its invoice
		case errors.Is(err, holdfast.ErrLost), errors.Is(err, fence.ErrStale), errors.Is(err, holdfast.ErrUnavailable):
			log.Printf("nothing written: %v", err)
		default:
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// writeNext writes the invoice of the next order. The error is sql.ErrNoRows if there is none, matches holdfast.ErrLost if the
// lease ended meanwhile, and fence.ErrStale if a later worker has had a turn.
func (w *worker) writeNext(ctx context.Context, lease *holdfast.Lease) error {
	stamp, err := fence.Of(lease)
	if err != nil {
		return err
	}
	// From now on the database refuses earlier workers, so what is read next stays true.
	if err := w.marks.Raise(ctx, stamp, "invoices"); err != nil {
		return err
	}
	inv, err := w.next(ctx)
	if err != nil {
		return err
	}
	log.Printf("invoice %d: printing, for order %d, under fence %d", inv.number, inv.order, stamp.Fence)
	document, err := w.printed(ctx, inv) // slow, and therefore not in the transaction
	if err != nil {
		return err
	}
	err = w.marks.Do(ctx, stamp, "invoices", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO invoices (number, order_id, document, fence) VALUES ($1, $2, $3, $4)`,
			inv.number, inv.order, document, int64(stamp.Fence))
		return err
	})
	if err != nil {
		return fmt.Errorf("invoice %d: %w", inv.number, err)
	}
	log.Printf("invoice %d: written", inv.number)
	return nil
}

// next returns the invoice of the first order that has none.
func (w *worker) next(ctx context.Context) (inv invoice, err error) {
	err = w.db.QueryRowContext(ctx, `
		SELECT (SELECT coalesce(max(number), 0) + 1 FROM invoices), id, customer, cents
		FROM orders
		WHERE NOT cancelled AND id NOT IN (SELECT order_id FROM invoices)
		ORDER BY id LIMIT 1`).Scan(&inv.number, &inv.order, &inv.customer, &inv.cents)
	return inv, err
}

// printed returns the invoice as a document.
func (w *worker) printed(ctx context.Context, inv invoice) (string, error) {
	select {
	case <-time.After(w.print):
		return fmt.Sprintf("Invoice %d to %s: %d.%02d", inv.number, inv.customer, inv.cents/100, inv.cents%100), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
