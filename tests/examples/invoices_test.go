//go:build unix

package examples

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/postgres"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// cluster is the PostgreSQL that the tests share.
var cluster = sync.OnceValues(func() (*postgres.Server, error) {
	s, err := postgres.Start()
	if err == nil {
		removeAtEnd(s.Stop)
	}
	return s, err
})

// orders creates a database with the tables of the example, and some orders.
func orders(t *testing.T, name string) (dsn string, db *sql.DB) {
	t.Helper()
	s, err := cluster()
	if errors.Is(err, postgres.ErrMissing) {
		t.Skipf("SKIPPED, THE EXAMPLE invoices IS NOT TESTED: %v", err)
	}
	expect.OK(t, err)
	expect.OK(t, s.Create(t.Context(), name))
	dsn = s.DSN(name, nil)
	if db, err = sql.Open("pgx", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	schema := expect.Of(os.ReadFile(filepath.Join("..", "..", "examples", "invoices", "schema.sql"))).OK(t)
	expect.OK(t, expect.ErrOf(db.ExecContext(t.Context(), string(schema))))
	return dsn, db
}

func query(t *testing.T, db *sql.DB, text string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// complete waits until every order has an invoice, and checks the numbers.
func complete(t *testing.T, db *sql.DB) {
	t.Helper()
	backend.Eventually(t, "every order has an invoice", func() bool {
		return query(t, db, `SELECT count(*) FROM orders WHERE id NOT IN (SELECT order_id FROM invoices)`) == 0
	})
	expect.Equal(t, "gaps in the numbers", query(t, db, `SELECT count(*) - max(number) FROM invoices`), 0)
	expect.Equal(t, "invoices whose fence is not above that of the one before", query(t, db, `SELECT count(*) FROM (SELECT fence, lag(fence) OVER (ORDER BY number) AS before FROM invoices) AS i WHERE fence <= before`), 0)
}

// A worker dies while it prints an invoice. The others write all of them, and leave no gap.
func TestInvoicesHaveNoGaps(t *testing.T) {
	s := server.Alone(t)
	dsn, db := orders(t, "gaps")
	first := start(t, "invoices", "-addr", s.Addr(), "-db", dsn, "-print", "1h")
	first.says("invoice 1: printing")
	var others []*process
	for range 2 {
		others = append(others, start(t, "invoices", "-addr", s.Addr(), "-db", dsn, "-print", "1ms"))
	}
	first.kill()
	complete(t, db)
	for _, p := range others {
		p.interrupt()
	}
}

// Fault: A holder is late, and a later one has raised the mark in PostgreSQL between its Raise and its write. The write is refused.
//
// The invoice's number is free, and its order has none: only the fence tells that it is late.
func TestALateInvoiceIsRefused(t *testing.T) {
	s := server.Alone(t)
	dsn, db := orders(t, "late")
	// Workers cannot read orders until the transaction ends.
	tx := expect.Of(db.BeginTx(t.Context(), nil)).OK(t)
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	expect.OK(t, expect.ErrOf(tx.ExecContext(t.Context(), `LOCK TABLE orders IN ACCESS EXCLUSIVE MODE`)))
	worker := start(t, "invoices", "-addr", s.Addr(), "-db", dsn, "-print", "1ms")
	backend.Eventually(t, "the worker has raised the mark", func() bool {
		return query(t, db, `SELECT count(*) FROM holdfast_marks`) == 1
	})
	expect.OK(t, expect.ErrOf(db.ExecContext(t.Context(), `UPDATE holdfast_marks SET fence = fence + 1, owner = 'a later worker'`)))
	expect.OK(t, tx.Commit())
	worker.says("invoice 1: printing, for order 1,")
	worker.says("nothing written: invoice 1:")
	complete(t, db)
	worker.interrupt()
}
