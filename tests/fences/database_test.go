// Package fences tests fences at real resources: Redis and Valkey, PostgreSQL and SQLite.
package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/postgres"
)

// database is a database with a table of marks and a ledger.
type database struct {
	*sql.DB
	name  string
	style fence.Placeholders
	dsn   func(parameters map[string]string) string // of PostgreSQL
}

// schema is the DDL of fence.SQL, as in its documentation, and that of the ledger.
var schema = []string{
	`CREATE TABLE holdfast_marks (resource TEXT PRIMARY KEY, fence BIGINT NOT NULL, owner TEXT NOT NULL)`,
	`CREATE TABLE ledger (
		id BIGINT, book TEXT, total BIGINT NOT NULL,
		PRIMARY KEY (id, book))`,
	`INSERT INTO ledger (id, book, total) VALUES (1, 'a', 100), (2, 'a', 200)`,
}

// cluster is the PostgreSQL that all tests share.
var cluster = sync.OnceValues(postgres.Start)

// started is that server, once it was started.
var started atomic.Pointer[postgres.Server]

var databases atomic.Int64

func openPostgres(t *testing.T, parameters map[string]string) *database {
	t.Helper()
	s, err := cluster()
	if errors.Is(err, postgres.ErrMissing) {
		t.Skipf("SKIPPED, NOTHING TESTED ON POSTGRESQL: %v", err)
	}
	expect.OK(t, err)
	started.Store(s)
	name := fmt.Sprint("test", databases.Add(1))
	expect.OK(t, s.Create(t.Context(), name))
	dsn := func(parameters map[string]string) string { return s.DSN(name, parameters) }
	return prepare(t, &database{name: "postgres", style: fence.Dollar, dsn: dsn}, "pgx", dsn(parameters))
}

// openSQLite opens a new file. A statement that meets another's write lock waits for patience, and then fails.
func openSQLite(t *testing.T, patience time.Duration) *database {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	return prepare(t, &database{name: "sqlite", style: fence.Question}, "sqlite",
		fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)", file, patience.Milliseconds()))
}

func prepare(t *testing.T, d *database, driver, dsn string) *database {
	t.Helper()
	db := expect.Of(sql.Open(driver, dsn)).OK(t)
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range schema {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	d.DB = db
	return d
}

// eachDatabase runs f on each kind of database.
func eachDatabase(t *testing.T, f func(t *testing.T, d *database)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { f(t, openSQLite(t, time.Minute)) })
	t.Run("postgres", func(t *testing.T) { f(t, openPostgres(t, nil)) })
}

func (d *database) marks() *fence.SQL { return &fence.SQL{DB: d.DB, Placeholders: d.style} }

// begin begins a transaction that is rolled back with the test at the latest.
func (d *database) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx := expect.Of(d.BeginTx(context.Background(), nil)).OK(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// number runs a query that returns one.
func number(t *testing.T, db fence.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func execute(t *testing.T, db fence.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// conflict reports whether a transaction failed because of another, and should be repeated: a serialization
// failure of PostgreSQL, or a lock of SQLite.
func conflict(err error) bool {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	return errors.As(err, &pg) && pg.Code == "40001" || errors.As(err, &lite) && lite.Code()&0xff == 5
}

func TestMain(m *testing.M) {
	backend.AtOnce(8) // they wait for databases and for leases
	code := m.Run()
	if s := started.Load(); s != nil {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
