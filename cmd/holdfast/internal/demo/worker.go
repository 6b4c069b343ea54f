package demo

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
)

// WorkerArg makes the program a worker of the demo: see Work.
const WorkerArg = "__demo-worker"

// brief is the first line that a worker reads. It comes through a pipe and not
// as arguments, which everybody on the machine can read: the URL may have a
// password.
type brief struct {
	Worker int           `json:"worker"`
	URL    string        `json:"url"`
	Prefix string        `json:"prefix"`
	TTL    time.Duration `json:"ttl"`
	Seed   uint64        `json:"seed"`
	Locked bool          `json:"locked"` // use the lock
}

// order is a later line.
type order string

const (
	drawLottery order = "lottery" // draw winners until all places have one
	keepLedger  order = "ledger"  // work until rest
	rest        order = "rest"    // stop working after this turn
	stall       order = "stall"   // stay in the middle of the next turn
	goOn        order = "go on"   // from there
)

// worker is one of the processes that race.
type worker struct {
	brief
	out    *json.Encoder
	orders <-chan order
	locks  *holdfast.Client
	rdb    redis.UniversalClient
}

// Work is what a worker process does: it takes orders from its standard input,
// reports what happens as lines of JSON on its standard output, and ends when
// there is no more input, as when the process that started it has died.
//
// It ignores the signals of a terminal, which mean the demo as a whole.
func Work(stdin io.Reader, stdout io.Writer, open Opener) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	in := bufio.NewScanner(stdin)
	if !in.Scan() {
		return errors.New("a worker of the demo is started by the demo only")
	}
	w := &worker{out: json.NewEncoder(stdout)}
	if err := json.Unmarshal(in.Bytes(), &w.brief); err != nil {
		return fmt.Errorf("a worker's brief: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan order, 8)
	w.orders = orders
	go func() {
		defer cancel()
		for in.Scan() {
			orders <- order(in.Text())
		}
	}()
	err := w.serve(ctx, open)
	if ctx.Err() != nil {
		return nil // whoever ordered is gone, and nobody listens
	}
	w.tell(event{Kind: isError, Text: err.Error()})
	return err
}

func (w *worker) serve(ctx context.Context, open Opener) error {
	var err error
	if w.rdb, err = open(w.URL); err != nil {
		return err
	}
	defer w.rdb.Close()
	w.locks, err = holdfastgoredis.New(w.rdb, &holdfast.Config{
		Logger: slog.New(slog.DiscardHandler), // what is shown is the locks, not the server
		Prefix: w.Prefix,
		Owner:  "worker " + strconv.Itoa(w.Worker),
		TTL:    w.TTL,
	})
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = w.locks.Close(end) // what it could not release, expires
	}()
	w.tell(event{Kind: isReady})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-w.orders:
			switch o {
			case drawLottery:
				err = w.drawAll(ctx)
			case keepLedger:
				err = w.keep(ctx)
			}
			if err != nil {
				return err
			}
			w.tell(event{Kind: isRested})
		}
	}
}

// tell reports an event of this moment, unless it has a time of its own.
func (w *worker) tell(e event) {
	if e.At == 0 {
		e.At = now()
	}
	e.Worker = w.Worker
	_ = w.out.Encode(e) // nobody listens: the input will end too
}
