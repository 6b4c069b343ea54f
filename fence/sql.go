package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DB is what this package needs of a *sql.DB, *sql.Conn or *sql.Tx.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Placeholders is how a database driver wants arguments to be marked in a statement.
type Placeholders int

const (
	Question Placeholders = iota // ?: SQLite
	Dollar                       // $1, $2: PostgreSQL
)

// SQL keeps marks in a table of a database:
//
//	CREATE TABLE holdfast_marks (
//		resource TEXT   PRIMARY KEY,
//		fence    BIGINT NOT NULL,
//		owner    TEXT   NOT NULL
//	)
//
// A mark that is raised in a transaction guards every statement after it in that transaction:
// until it ends, nobody else can raise the same mark (PostgreSQL locks the row, SQLite
// allows one writer at a time). That is what Do and RaiseIn are for. A mark raised
// outside, by Raise, guards nothing that is written later without it.
//
// Who is paused within a transaction keeps the mark from the next holder, so keep
// transactions short; on PostgreSQL set idle_in_transaction_session_timeout below the lease's
// TTL, so that the server ends the late one. SQLite has no such bound.
//
// PostgreSQL at READ COMMITTED answers ErrStale. At REPEATABLE READ and SERIALIZABLE, and
// on SQLite when another transaction writes, a statement may fail with a serialization or
// busy error instead: repeat the transaction. Other databases are not tested.
type SQL struct {
	// DB is where Raise and Do begin transactions.
	DB *sql.DB
	// Table is the table's name, as it stands in statements. Default "holdfast_marks".
	Table string
	// Placeholders is what DB's driver wants. Default Question.
	Placeholders Placeholders
	// MaxLead is as in RedisConfig.
	MaxLead time.Duration
}

// Do begins a transaction, raises the mark of a resource, calls f and commits. When the
// mark refuses the stamp, it returns a *StaleError and f is not called. When f returns an
// error or panics, the transaction is rolled back, and the mark is where it was.
//
// The transaction is of the database's default isolation level. f must not end it.
func (m *SQL) Do(ctx context.Context, s Stamp, resource string, f func(tx *sql.Tx) error) error {
	tx, err := m.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := m.RaiseIn(ctx, tx, s, resource); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// RaiseIn raises the mark of a resource in a transaction, which holds it until its end. Call
// it first: statements before it are not guarded, and what they have read may be
// old. After a *StaleError roll the transaction back.
func (m *SQL) RaiseIn(ctx context.Context, tx DB, s Stamp, resource string) error {
	if err := s.within(m.MaxLead); err != nil {
		return err
	}
	table := m.Table
	if table == "" {
		table = "holdfast_marks"
	}
	raise := statement{style: m.Placeholders}
	raise.add("INSERT INTO ", table, " AS mark (resource, fence, owner) VALUES (",
		raise.arg(resource), ", ", raise.arg(int64(s.Fence)), ", ", raise.arg(s.Owner), ")",
		" ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, owner = excluded.owner",
		" WHERE mark.fence < excluded.fence OR (mark.fence = excluded.fence")
	if !s.Shared {
		raise.add(" AND mark.owner = excluded.owner")
	}
	raise.add(")")
	look := statement{style: m.Placeholders}
	look.add("SELECT fence, owner FROM ", table, " WHERE resource = ", look.arg(resource))
	return guarded(ctx, tx, s, resource, &raise, &look)
}

// Raise raises the mark of a resource at once, outside any transaction: before reading,
// or for a handler that only wants to know who is late.
func (m *SQL) Raise(ctx context.Context, s Stamp, resource string) error {
	return m.RaiseIn(ctx, m.DB, s, resource)
}

// statement is a statement that is put together.
type statement struct {
	style Placeholders
	text  strings.Builder
	args  []any
}

func (st *statement) add(parts ...string) {
	for _, p := range parts {
		st.text.WriteString(p)
	}
}

// arg adds an argument and returns its placeholder.
func (st *statement) arg(v any) string {
	st.args = append(st.args, v)
	if st.style == Dollar {
		return "$" + strconv.Itoa(len(st.args))
	}
	return "?"
}

// tries bounds how often guarded begins again when rows come and go between its two
// statements.
const tries = 5

// guarded runs a write that changes one row unless the mark refuses it. If nothing
// changed, look finds out why: it selects the mark's fence and owner.
func guarded(ctx context.Context, db DB, s Stamp, resource string, write, look *statement) error {
	for range tries {
		result, err := db.ExecContext(ctx, write.text.String(), write.args...)
		if err != nil {
			return fmt.Errorf("holdfast: guarded write to %q: %w", resource, err)
		}
		n, err := result.RowsAffected()
		switch {
		case err != nil:
			return fmt.Errorf("holdfast: guarded write to %q: how many rows? %w", resource, err)
		case n == 1:
			return nil
		case n != 0:
			return fmt.Errorf("holdfast: guarded write to %q: %d rows were written, not 1: the key does not name one row", resource, n)
		}
		var fence sql.NullInt64
		var owner sql.NullString
		switch err := db.QueryRowContext(ctx, look.text.String(), look.args...).Scan(&fence, &owner); {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("holdfast: guarded write to %q: there is no such row: %w", resource, err)
		case err != nil:
			return fmt.Errorf("holdfast: guarded write to %q: %w", resource, err)
		case !fence.Valid || fence.Int64 < 0 || !owner.Valid:
			return fmt.Errorf("%w: %q has NULL or a negative number", ErrBadMark, resource)
		}
		if mark := (Mark{uint64(fence.Int64), owner.String}); mark.refuses(s) {
			return &StaleError{Resource: resource, Stamp: s, Mark: mark}
		}
	}
	return fmt.Errorf("holdfast: guarded write to %q: its row comes and goes", resource)
}
