package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// DB is implemented by *sql.DB, *sql.Conn and *sql.Tx.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Placeholders is the style of a database driver's placeholders for arguments.
type Placeholders int

const (
	Question Placeholders = iota // ?: SQLite
	Dollar                       // $1, $2: PostgreSQL
)

// in returns a query whose placeholders are question marks in this style.
func (p Placeholders) in(query string) string {
	if p == Question {
		return query
	}
	parts := strings.Split(query, "?")
	var b strings.Builder
	for i, part := range parts[:len(parts)-1] {
		b.WriteString(part + "$" + strconv.Itoa(i+1))
	}
	return b.String() + parts[len(parts)-1]
}

// SQL keeps marks in a table of a database:
//
//	CREATE TABLE holdfast_marks (
//		resource TEXT   PRIMARY KEY,
//		fence    BIGINT NOT NULL,
//		owner    TEXT   NOT NULL
//	)
//
// A mark that is raised in a transaction guards all later statements of the transaction, because nobody else can raise
// the mark until the transaction ends (PostgreSQL locks the row, and SQLite allows one writer at a time). Use Do or
// RaiseIn for this. A mark raised by Raise, outside a transaction, does not guard later writes.
//
// A holder that is paused within a transaction blocks the next holder, so keep transactions short. On PostgreSQL, set
// idle_in_transaction_session_timeout below the lease's TTL, so that the server ends a late transaction. SQLite has no
// such timeout.
//
// PostgreSQL returns ErrStale at READ COMMITTED. At REPEATABLE READ and SERIALIZABLE, and on SQLite while another
// transaction writes, a statement may instead fail with a serialization or busy error; repeat the transaction then.
// Other databases are not tested.
//
// For a row that has columns for its own mark, this package is not needed:
//
//	UPDATE ledger SET total = $3, fence = $1, fence_owner = $2
//	WHERE id = $4 AND (fence < $1 OR (fence = $1 AND fence_owner = $2))
//
// If that changes no row, the row has seen a later holder, or does not exist. With a Stamp that is Shared, an equal fence is enough.
type SQL struct {
	// DB is the database in which Raise and Do run.
	DB *sql.DB
	// Table is the table's name, as it is put into statements. The default is "holdfast_marks".
	Table string
	// Placeholders is the style of DB's driver. The default is Question.
	Placeholders Placeholders
	// MaxLead is as in RedisConfig.
	MaxLead time.Duration
}

// Do begins a transaction, raises the mark of a resource, calls f and commits. If the mark refuses the stamp, Do returns
// a *StaleError and does not call f. If f returns an error or panics, the transaction is rolled back, and the mark is
// unchanged.
//
// The transaction has the database's default isolation level. f must not end it.
func (m *SQL) Do(ctx context.Context, s Stamp, resource string, f func(tx *sql.Tx) error) error {
	tx, err := m.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if err := m.RaiseIn(ctx, tx, s, resource); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// RaiseIn raises the mark of a resource in a transaction, which holds it until it ends. Call it first: earlier
// statements are not guarded, and what they have read may be outdated. After a *StaleError, roll the transaction back.
func (m *SQL) RaiseIn(ctx context.Context, tx DB, s Stamp, resource string) error {
	if err := s.within(m.MaxLead); err != nil {
		return err
	}
	raise := "INSERT INTO " + m.table() + " AS mark (resource, fence, owner) VALUES (?, ?, ?)" +
		" ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, owner = excluded.owner" +
		" WHERE mark.fence < excluded.fence OR (mark.fence = excluded.fence"
	if !s.Shared {
		raise += " AND mark.owner = excluded.owner"
	}
	for range maxTries {
		result, err := tx.ExecContext(ctx, m.Placeholders.in(raise+")"), resource, int64(s.Fence), s.Owner)
		if err != nil {
			return failed(resource, err)
		}
		n, err := result.RowsAffected()
		switch {
		case err != nil:
			return failed(resource, err)
		case n != 0:
			return nil
		}
		var fence sql.NullInt64
		var owner sql.NullString
		read := tx.QueryRowContext(ctx, m.Placeholders.in("SELECT fence, owner FROM "+m.table()+" WHERE resource = ?"), resource)
		switch err := read.Scan(&fence, &owner); {
		case errors.Is(err, sql.ErrNoRows): // it was pruned meanwhile
			continue
		case err != nil:
			return failed(resource, err)
		case !fence.Valid || fence.Int64 < 0 || !owner.Valid:
			return fmt.Errorf("%w: resource %q has NULL or a negative fence", ErrBadMark, resource)
		}
		if mark := (Mark{uint64(fence.Int64), owner.String}); mark.refuses(s) {
			return &StaleError{Resource: resource, Stamp: s, Mark: mark}
		}
	}
	return failed(resource, fmt.Errorf("the mark changed during each of %d tries", maxTries))
}

// maxTries bounds how often RaiseIn starts over because the mark appeared or disappeared between its two statements.
const maxTries = 5

func failed(resource string, err error) error {
	return fmt.Errorf("holdfast: guarded write to %q: %w", resource, err)
}

// Raise raises the mark of a resource at once, outside any transaction: before reading, or only to find out whether the
// stamp is stale.
func (m *SQL) Raise(ctx context.Context, s Stamp, resource string) error {
	return m.RaiseIn(ctx, m.DB, s, resource)
}

// firstTime is the lowest fence that Prune takes for a time: the year 2015, in microseconds since 1970. Lower fences were counted.
const firstTime = 1_420_070_400_000_000

// Prune deletes the marks of leases that were granted longer than age ago, by this process's clock, and returns their number.
// Otherwise the table keeps a row for every resource that was ever guarded. A resource without a mark accepts any fence, so age must
// exceed the time for which a lease is held and a write delayed; a day is usual. An age below an hour is ErrInvalid.
//
// Prune keeps marks whose fence is no time of a grant, in microseconds since 1970, as the fences of Holdfast are.
func (m *SQL) Prune(ctx context.Context, age time.Duration) (int64, error) {
	if age < time.Hour {
		return 0, fmt.Errorf("%w: an age of %s is not possible for Prune; an hour or more is", holdfast.ErrInvalid, age)
	}
	prune := m.Placeholders.in("DELETE FROM " + m.table() + " WHERE fence > ? AND fence < ?")
	result, err := m.DB.ExecContext(ctx, prune, int64(firstTime), time.Now().Add(-age).UnixMicro())
	if err != nil {
		return 0, fmt.Errorf("holdfast: pruning marks: %w", err)
	}
	return result.RowsAffected()
}

func (m *SQL) table() string {
	if m.Table == "" {
		return "holdfast_marks"
	}
	return m.Table
}
