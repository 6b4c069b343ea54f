// Package worker is the processes of the demo that compete for locks.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
)

// Arg makes the program a worker of the demo. See Main.
const Arg = "__demo-worker"

// Assignment is the first line that a worker reads. It comes through a pipe, because everybody on the machine can read
// arguments, and the URL may contain a password.
type Assignment struct {
	Worker int           `json:"worker"`
	URL    string        `json:"url"`
	Prefix string        `json:"prefix"`
	TTL    time.Duration `json:"ttl"`
	Seed   uint64        `json:"seed"`
	Locked bool          `json:"locked"` // use the lock
}

// Order is any later line.
type Order string

// The orders.
const (
	DrawLottery Order = "lottery" // draw winners until every place has one
	KeepLedger  Order = "ledger"  // work until Stop
	Stop        Order = "rest"    // stop after this turn
	Stall       Order = "stall"   // stay in the middle of the next turn
	GoOn        Order = "go on"   // continue that turn
)

// Opener makes a client of the server with a URL.
type Opener func(url string) (redis.UniversalClient, error)

// worker is a process that competes.
type worker struct {
	Assignment
	out    *json.Encoder
	orders <-chan Order
	locks  *holdfast.Client
	rdb    redis.UniversalClient
}

// Main is a worker process. It takes orders from its standard input, and reports events as lines of JSON on its standard
// output. It ends with its input, also if the process that started it has died.
//
// It ignores the signals of a terminal, which are for the demo as a whole.
func Main(stdin io.Reader, stdout io.Writer, open Opener) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	in := bufio.NewScanner(stdin)
	if !in.Scan() {
		return errors.New("only the demo starts its workers")
	}
	w := &worker{out: json.NewEncoder(stdout)}
	if err := json.Unmarshal(in.Bytes(), &w.Assignment); err != nil {
		return fmt.Errorf("a worker's assignment: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan Order, 8)
	w.orders = orders
	go func() {
		defer cancel()
		for in.Scan() {
			orders <- Order(in.Text())
		}
	}()
	err := w.serve(ctx, open)
	if ctx.Err() != nil {
		return nil // the input has ended, and nobody reads the output
	}
	w.report(history.Event{Kind: history.Failed, Text: err.Error()})
	return err
}

// serve carries out orders until ctx ends.
func (w *worker) serve(ctx context.Context, open Opener) error {
	var err error
	if w.rdb, err = open(w.URL); err != nil {
		return err
	}
	defer w.rdb.Close()
	w.locks, err = holdfastgoredis.New(w.rdb, &holdfast.Config{
		Logger:   slog.New(slog.DiscardHandler), // the demo is about locks, not about the server
		Prefix:   w.Prefix,
		Identity: "worker " + strconv.Itoa(w.Worker),
		TTL:      w.TTL,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = w.locks.Close(ctx) // locks that it cannot release expire
	}()
	w.report(history.Event{Kind: history.Ready})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-w.orders:
			switch o {
			case DrawLottery:
				err = w.drawAll(ctx)
			case KeepLedger:
				err = w.keepLedger(ctx)
			}
			if err != nil {
				return err
			}
			w.report(history.Event{Kind: history.Finished})
		}
	}
}

// report reports an event, which happens now unless it has a time.
func (w *worker) report(e history.Event) {
	if e.At == 0 {
		e.At = history.Now()
	}
	e.Worker = w.Worker
	_ = w.out.Encode(e) // if nobody reads, the input will end, too
}
