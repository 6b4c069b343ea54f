package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// WorkerArg is the program's first argument if it is to be a worker of the demo.
const WorkerArg = "__demo-worker"

// assignment is a worker's second argument, as JSON.
type assignment struct {
	Worker int    `json:"worker"`
	Addr   string `json:"addr"` // of the server
	Seed   uint64 `json:"seed"`
	Locked bool   `json:"locked"` // whether to use the lock
}

// order is a line that a worker reads.
type order string

const (
	drawLottery order = "lottery" // draw winners until every place has one
	keepLedger  order = "ledger"  // work until stop
	stop        order = "rest"    // stop after this turn
	stall       order = "stall"   // stay in the middle of the next turn
	goOn        order = "go on"   // continue that turn
)

// How long the guarded work takes. A draw is slow enough to watch, and long enough for collisions without a lock.
const (
	drawTime   = 120 * time.Millisecond
	ledgerTime = 4 * time.Millisecond
)

// worker is the state of a worker process.
type worker struct {
	assignment
	out    *json.Encoder
	orders <-chan order
	locks  *holdfast.Client
	guard  *fence.Redis
	rdb    *redis.Client
}

// Worker runs a worker process. The worker reads orders from its standard input, and reports events as lines of JSON on its standard
// output. It ends when its input ends, even if the demo has died. It ignores the signals of a terminal, which are for the demo.
func Worker(args []string, stdin io.Reader, stdout io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if len(args) != 1 {
		return errors.New("only the demo starts its workers")
	}
	w := &worker{out: json.NewEncoder(stdout)}
	if err := json.Unmarshal([]byte(args[0]), &w.assignment); err != nil {
		return fmt.Errorf("a worker's assignment: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan order, 8)
	w.orders = orders
	go func() {
		defer cancel()
		for in := bufio.NewScanner(stdin); in.Scan(); {
			orders <- order(in.Text())
		}
	}()
	err := w.serve(ctx)
	if ctx.Err() != nil {
		return nil // the input has ended, and the output has no reader
	}
	w.report(Event{Kind: Failed, Text: err.Error()})
	return err
}

func (w *worker) serve(ctx context.Context) error {
	w.rdb = redis.NewClient(&redis.Options{Addr: w.Addr})
	defer w.rdb.Close()
	driver, err := holdfastgoredis.NewDriver(w.rdb)
	if err != nil {
		return err
	}
	w.guard = fence.NewRedis(driver, nil)
	w.locks, err = holdfast.New(driver, &holdfast.Config{
		Logger:   slog.New(slog.DiscardHandler),
		Identity: "worker " + strconv.Itoa(w.Worker),
		TTL:      ttl,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = w.locks.Close(ctx) // locks that cannot be released expire
	}()
	if err := w.locks.Ping(ctx); err != nil {
		return err
	}
	w.report(Event{Kind: Ready})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-w.orders:
			switch o {
			case drawLottery:
				err = w.repeat(ctx, Lottery, w.draw)
			case keepLedger:
				err = w.repeat(ctx, Ledger, w.addToLedger)
			}
			if err != nil {
				return err
			}
			w.report(Event{Kind: Finished})
		}
	}
}

// report reports an event, which happens now unless it has a time.
func (w *worker) report(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	e.Worker = w.Worker
	_ = w.out.Encode(e) // fails if the demo has died; then the input ends, too
}

// repeat takes one turn after another until work is done. It ignores that a fence was refused: the worker has lost its lease in an
// accident, and nothing was written.
func (w *worker) repeat(ctx context.Context, lock string, work func(context.Context, *turn) (done bool, err error)) error {
	for {
		t, err := w.begin(ctx, lock)
		if err != nil {
			return err
		}
		done, err := work(ctx, t)
		if errors.Is(err, fence.ErrStale) {
			err = nil
		}
		if err := errors.Join(err, t.end(ctx)); err != nil || done {
			return err
		}
	}
}

// turn is one acquisition of a lock, and the work under it.
type turn struct {
	w     *worker
	lock  string
	lease *holdfast.Lease // nil without the lock
	stamp fence.Stamp
}

func (w *worker) begin(ctx context.Context, lock string) (*turn, error) {
	t := &turn{w: w, lock: lock}
	e := Event{Kind: Granted, Lock: lock, Asked: Now(), At: Now(), Deadline: Now() + time.Hour}
	if w.Locked {
		lease, err := w.locks.Mutex(lock).Acquire(ctx)
		if err != nil {
			return nil, err
		}
		e.At, e.Fence, e.Deadline = Now(), lease.Fence(), At(lease.Deadline())
		t.lease, t.stamp = lease, fence.Stamp{Lock: lock, Fence: lease.Fence(), Owner: lease.Identity()}
	}
	w.report(e)
	return t, nil
}

// end releases the lock. A lost lease is not an error: a paused worker loses its lease, and the register refuses its fence.
func (t *turn) end(ctx context.Context) error {
	e := Event{Kind: Released, Lock: t.lock, At: Now()}
	e.Deadline = e.At
	var err error
	if t.lease != nil {
		e.Deadline = At(t.lease.Deadline())
		err = t.lease.Release(ctx)
	}
	t.w.report(e)
	if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrAmbiguous) {
		return nil
	}
	return err
}

// register returns the key of the value that holders of a lock change. The register's guard remembers the highest fence that it has seen,
// and refuses lower ones. A lock alone cannot do that, because a paused holder does not know that its lease is over.
func register(lock string) string { return "demo:" + lock }

func readRegister(ctx context.Context, rdb *redis.Client, lock string) (string, error) {
	text, err := rdb.Get(ctx, register(lock)).Result()
	if errors.Is(err, redis.Nil) {
		err = nil // the register is still empty
	}
	return text, err
}

// read makes the register refuse the fences of earlier holders, and returns its value.
func (t *turn) read(ctx context.Context) (string, error) {
	if t.lease != nil {
		if err := t.w.guard.Raise(ctx, t.stamp, register(t.lock)); err != nil {
			return "", err
		}
	}
	return readRegister(ctx, t.w.rdb, t.lock)
}

// write replaces the register's value, unless a later holder has read it.
func (t *turn) write(ctx context.Context, value string) error {
	if t.lease == nil {
		return t.w.rdb.Set(ctx, register(t.lock), value, 0).Err()
	}
	return t.w.guard.Set(ctx, t.stamp, register(t.lock), value, 0)
}

// draw adds one winner to the list: read, think, write. It reports whether the list is full.
func (w *worker) draw(ctx context.Context, t *turn) (full bool, err error) {
	text, err := t.read(ctx)
	if err != nil {
		return false, err
	}
	winners := splitNames(text)
	if len(winners) >= Places {
		return true, nil
	}
	if err := sleep(ctx, drawTime); err != nil {
		return false, err
	}
	winner := pickWinner(winners, w.Seed)
	if err := t.write(ctx, strings.Join(append(winners, winner), ",")); err != nil {
		return false, err
	}
	w.report(Event{Kind: Drew, Lock: t.lock, Fence: t.stamp.Fence, Place: len(winners) + 1, Winner: winner})
	return false, nil
}

// pickWinner draws an entrant who has not won yet. Workers with the same seed draw the same one.
func pickWinner(winners []string, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, uint64(len(winners))))
	for {
		name := entrants[rng.IntN(len(entrants))]
		if !slices.Contains(winners, name) {
			return name
		}
	}
}

func splitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// addToLedger reads the total, thinks, and writes one more. A worker that is ordered to stall waits between the two until it is told to go
// on, and then writes even if its lease is lost: only a fence stops such a careless holder. It reports whether to stop.
func (w *worker) addToLedger(ctx context.Context, t *turn) (stopped bool, err error) {
	stalls, stopped := w.newOrders()
	text, err := t.read(ctx)
	if err != nil {
		return stopped, err
	}
	total := 0
	if text != "" {
		if total, err = strconv.Atoi(text); err != nil {
			return stopped, fmt.Errorf("the ledger has the total %q", text)
		}
	}
	w.report(Event{Kind: Read, Lock: t.lock, Fence: t.stamp.Fence})
	if stalls {
		err = t.stall(ctx)
	} else {
		err = sleep(ctx, ledgerTime)
	}
	if err != nil {
		return stopped, err
	}
	e := Event{Kind: Wrote, Lock: t.lock, Fence: t.stamp.Fence, Value: total + 1, Late: stalls}
	err = t.write(ctx, strconv.Itoa(total+1))
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		e.Refused, e.Highest = true, stale.Mark.Fence
	} else if err != nil {
		return stopped, err
	}
	w.report(e)
	return stopped, nil
}

// newOrders takes the orders that have arrived during a turn.
func (w *worker) newOrders() (stalls, stops bool) {
	for {
		select {
		case o := <-w.orders:
			stalls = stalls || o == stall
			stops = stops || o == stop
		default:
			return stalls, stops
		}
	}
}

// stall waits for the order to go on, and then asks the lease whether it is lost.
func (t *turn) stall(ctx context.Context) error {
	t.w.report(Event{Kind: Stalled, Lock: t.lock, Fence: t.stamp.Fence})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-t.w.orders:
			if o != goOn {
				continue
			}
			e := Event{Kind: Woke, Lock: t.lock, Fence: t.stamp.Fence}
			var lost *holdfast.LostError
			if errors.As(t.lease.Err(), &lost) {
				said := *lost
				said.Err = nil // leave out how late the process was: the line is short
				e.Lost, e.Text = true, said.Error()
			}
			t.w.report(e)
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// entrants are people to whom computing owes something.
var entrants = []string{
	"Ada Lovelace", "Alan Kay", "Alan Turing", "Alonzo Church", "Annie Easley",
	"Barbara Liskov", "Betty Holberton", "Butler Lampson", "Claude Shannon", "Dana Angluin",
	"Dennis Ritchie", "Donald Knuth", "Dorothy Vaughan", "Edsger Dijkstra", "Evelyn Boyd Granville",
	"Frances Allen", "Fred Brooks", "Grace Hopper", "Hedy Lamarr", "Ivan Sutherland",
	"Jean Sammet", "Joan Clarke", "John Backus", "John McCarthy", "Karen Spärck Jones",
	"Katherine Johnson", "Ken Thompson", "Konrad Zuse", "Kristen Nygaard", "Leslie Lamport",
	"Lynn Conway", "Margaret Hamilton", "Mary Shaw", "Niklaus Wirth", "Per Brinch Hansen",
	"Radia Perlman", "Robin Milner", "Shafi Goldwasser", "Sophie Wilson", "Tony Hoare",
}
