package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestMarksOfResources(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *database) {
		ctx := t.Context()
		marks := d.marks()
		taken(t, marks.Raise(ctx, by("a", 9), "r"))
		taken(t, marks.Raise(ctx, by("a", 9), "r"))
		refused(t, marks.Raise(ctx, by("b", 9), "r"), by("b", 9), fence.Mark{Fence: 9, Owner: "a"})
		refused(t, marks.Raise(ctx, by("a", 8), "r"), by("a", 8), fence.Mark{Fence: 9, Owner: "a"})
		taken(t, marks.Raise(ctx, by("b", math.MaxInt64), "r"))
		taken(t, marks.Raise(ctx, by("b", 1), "another"))

		// A transaction that is refused, fails or panics leaves nothing.
		mine := errors.New("by hand")
		pay := func(tx *sql.Tx) error {
			execute(t, tx, "UPDATE ledger SET total = total + 1 WHERE id = 1")
			return nil
		}
		taken(t, marks.Do(ctx, by("a", 5), "ledger", pay))
		refused(t, marks.Do(ctx, by("b", 4), "ledger", pay), by("b", 4), fence.Mark{Fence: 5, Owner: "a"})
		expect.Err(t, "Do", marks.Do(ctx, by("b", 6), "ledger", func(tx *sql.Tx) error { return errors.Join(pay(tx), mine) }), mine)
		func() {
			defer func() { _ = recover() }()
			_ = marks.Do(ctx, by("b", 6), "ledger", func(tx *sql.Tx) error { _ = pay(tx); panic(mine) })
		}()
		expect.Equal(t, "total", number(t, d, "SELECT total FROM ledger WHERE id = 1"), 101)
		taken(t, marks.Do(ctx, by("a", 5), "ledger", pay)) // the mark went back with the transaction
		execute(t, d, "UPDATE holdfast_marks SET fence = -1 WHERE resource = 'ledger'")
		taken(t, marks.Raise(ctx, by("a", 1), "ledger"))
		elsewhere := &fence.SQL{DB: d.DB, Table: "missing", Placeholders: d.style}
		if err := elsewhere.Raise(ctx, by("a", 1), "r"); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("a missing table: %v", err)
		}
		execute(t, d, "CREATE TABLE odd (resource TEXT PRIMARY KEY, fence BIGINT, owner TEXT)")
		execute(t, d, "INSERT INTO odd (resource) VALUES ('r')")
		odd := &fence.SQL{DB: d.DB, Table: "odd", Placeholders: d.style}
		if err := odd.Raise(ctx, by("a", 1), "r"); !errors.Is(err, fence.ErrBadMark) {
			t.Errorf("a mark that is NULL: %v", err)
		}
	})
}

// Prune deletes the marks of leases that were granted longer ago than the given age. It keeps fences that are not times.
func TestOldMarksArePruned(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *database) {
		ctx, marks := t.Context(), d.marks()
		ago := func(age time.Duration) uint64 { return uint64(time.Now().Add(-age).UnixMicro()) }
		kept := map[string]uint64{"held": ago(23 * time.Hour), "counted": 7, "ahead": ago(-time.Hour)}
		for resource, f := range kept {
			taken(t, marks.Raise(ctx, by("a", f), resource))
		}
		taken(t, marks.Raise(ctx, by("a", ago(25*time.Hour)), "old"))
		for want, age := range []time.Duration{48 * time.Hour, 24 * time.Hour} {
			expect.Of(marks.Prune(ctx, age)).Is(t, "rows pruned", int64(want))
		}
		taken(t, marks.Raise(ctx, by("b", 1), "old"))
		for resource, f := range kept {
			refused(t, marks.Raise(ctx, by("b", 1), resource), by("b", 1), fence.Mark{Fence: f, Owner: "a"})
		}
		expect.Err(t, "a short age", expect.ErrOf(marks.Prune(ctx, 59*time.Minute)), holdfast.ErrInvalid)
	})
}

// raise raises the ledger's mark.
func raise(d *database, ctx context.Context, tx fence.DB, s fence.Stamp) error {
	return d.marks().RaiseIn(ctx, tx, s, "ledger")
}

// Fault: Of two concurrent transactions the second raises the mark while the first has not ended. It waits, and then
// sees what the first has done, or is refused.
func TestConcurrentTransactionsOnPostgres(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			d := openPostgres(t, map[string]string{"default_transaction_isolation": level})
			for _, known := range []bool{false, true} { // whether there is a mark to lock
				for _, lowFirst := range []bool{true, false} {
					for _, commit := range []bool{true, false} {
						t.Run(fmt.Sprintf("known %v, low first %v, commit %v", known, lowFirst, commit), func(t *testing.T) {
							race(t, d, level, known, lowFirst, commit)
						})
					}
				}
			}
		})
	}
}

// Fault: A holder is paused within a transaction, which keeps the mark locked. The next holder waits until the server
// ends the paused one's session, which undoes its writes.
func TestAHolderPausedWithinATransactionIsCutOff(t *testing.T) {
	t.Parallel()
	d := openPostgres(t, nil)
	// It is long enough for the holder to get that far while the machine stands still.
	paused, err := sql.Open("pgx", d.dsn(map[string]string{"idle_in_transaction_session_timeout": "3000"}))
	expect.OK(t, err)
	defer paused.Close()
	marks := &fence.SQL{DB: paused, Placeholders: d.style}
	err = marks.Do(t.Context(), by("a", 5), "ledger", func(tx *sql.Tx) error {
		execute(t, tx, "UPDATE ledger SET total = 999 WHERE id = 1")
		return d.marks().Do(t.Context(), by("b", 6), "ledger", func(tx *sql.Tx) error {
			execute(t, tx, "UPDATE ledger SET total = total + 1 WHERE id = 1")
			return nil
		})
	})
	if err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("the paused holder's transaction ends with %v", err)
	}
	expect.Equal(t, "total", number(t, d, "SELECT total FROM ledger WHERE id = 1"), 101)
}

func race(t *testing.T, d *database, level string, known, lowFirst, commit bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	execute(t, d, "DELETE FROM holdfast_marks")
	execute(t, d, "UPDATE ledger SET total = 100")
	if known {
		taken(t, raise(d, ctx, d, by("z", 1)))
	}
	first, second := by("low", 5), by("high", 6)
	if !lowFirst {
		first, second = second, first
	}
	tx1, tx2 := d.begin(t), d.begin(t)
	waiting := number(t, tx2, "SELECT pg_backend_pid()") // it also takes the snapshot of the stricter levels
	taken(t, raise(d, ctx, tx1, first))
	execute(t, tx1, "UPDATE ledger SET total = total + 1 WHERE id = 1")
	answer := make(chan error, 1)
	go func() { answer <- raise(d, ctx, tx2, second) }()
	backend.Eventually(t, "the second waits for the first", func() bool {
		return number(t, d, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'", waiting)) == 1
	})
	end := tx1.Rollback
	if commit {
		end = tx1.Commit
	}
	taken(t, end())
	err := <-answer

	if commit && level != "read committed" {
		// The second cannot see the first. It fails, and finds out when it is repeated.
		if !conflict(err) || errors.Is(err, fence.ErrStale) {
			t.Fatalf("%v; want a serialization failure", err)
		}
		taken(t, tx2.Rollback())
		tx2 = d.begin(t)
		err = raise(d, ctx, tx2, second)
	}
	if commit && !lowFirst {
		refused(t, err, second, fence.Mark{Fence: first.Fence, Owner: first.Owner})
		return
	}
	taken(t, err)
	want := int64(100)
	if commit {
		want = 101 // raised before it was read
	}
	expect.Equal(t, "the second reads", number(t, tx2, "SELECT total FROM ledger WHERE id = 1"), want)
	execute(t, tx2, "UPDATE ledger SET total = total + 10 WHERE id = 1")
	taken(t, tx2.Commit())
	expect.Equal(t, "total", number(t, d, "SELECT total FROM ledger WHERE id = 1"), want+10)
	if lowFirst {
		refused(t, raise(d, ctx, d, first), first, fence.Mark{Fence: second.Fence, Owner: second.Owner})
	} else {
		taken(t, raise(d, ctx, d, first)) // its mark went back with it
	}
}

// SQLite has one writer: the second is refused while the first has not ended, in either order.
func TestConcurrentTransactionsOnSQLite(t *testing.T) {
	t.Parallel()
	for _, lowFirst := range []bool{true, false} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("low first %v, commit %v", lowFirst, commit), func(t *testing.T) {
				d := openSQLite(t, 0)
				ctx := t.Context()
				first, second := by("low", 5), by("high", 6)
				if !lowFirst {
					first, second = second, first
				}
				tx1 := d.begin(t)
				taken(t, raise(d, ctx, tx1, first))
				tx2 := d.begin(t)
				if err := raise(d, ctx, tx2, second); !conflict(err) || errors.Is(err, fence.ErrStale) {
					t.Fatalf("the second is answered %v while the first goes on", err)
				}
				taken(t, tx2.Rollback())
				if commit {
					taken(t, tx1.Commit())
				} else {
					taken(t, tx1.Rollback())
				}
				// A transaction that has read before the first ended cannot write after that.
				err := raise(d, ctx, d, second)
				if commit && !lowFirst {
					refused(t, err, second, fence.Mark{Fence: first.Fence, Owner: first.Owner})
					return
				}
				taken(t, err)
			})
		}
	}
}

// A transaction that reads before it raises the mark, while another one writes, fails: it cannot write what it
// computed from outdated data.
func TestReadingBeforeRaisingFailsOnSQLite(t *testing.T) {
	t.Parallel()
	d := openSQLite(t, 0)
	tx := d.begin(t)
	_ = number(t, tx, "SELECT total FROM ledger WHERE id = 1")
	taken(t, d.marks().Do(t.Context(), by("low", 5), "ledger", func(tx *sql.Tx) error {
		execute(t, tx, "UPDATE ledger SET total = total + 1 WHERE id = 1")
		return nil
	}))
	if err := d.marks().RaiseIn(t.Context(), tx, by("high", 6), "ledger"); !conflict(err) {
		t.Errorf("RaiseIn = %v", err)
	}
}
