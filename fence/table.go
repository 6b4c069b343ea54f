package fence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Columns gives columns, by name, values. Names stand in statements as they are:
// take them from no input.
type Columns map[string]any

// Table is a table of which each row has a mark of its own, in two columns:
//
//	fence       BIGINT NOT NULL DEFAULT 0,
//	fence_owner TEXT   NOT NULL DEFAULT ''
//
// Writes compare and raise it in one UPDATE:
//
//	UPDATE ledger SET total = :total, fence = :f, fence_owner = :o
//	WHERE id = :id AND (fence < :f OR (fence = :f AND fence_owner = :o))
//
// Of a Stamp that is Shared, an equal fence is enough.
//
// A deleted row takes its mark along: a stale writer that inserts it anew is not refused.
type Table struct {
	// Name is the table's name, as it stands in statements.
	Name string
	// Fence and Owner are the mark's columns. Default "fence" and "fence_owner".
	Fence, Owner string
	// Placeholders is what the database's driver wants. Default Question.
	Placeholders Placeholders
	// MaxLead is as in RedisConfig.
	MaxLead time.Duration
}

// Update sets columns of the row with this key, whose columns together name one row: a
// key of several is an error, after some of them were written. It changes nothing and
// returns a *StaleError when a later holder has been there; an error that wraps
// sql.ErrNoRows when there is no such row. On a *sql.DB it stands by itself; in a
// transaction the row stays locked until the end.
func (t *Table) Update(ctx context.Context, db DB, s Stamp, key, set Columns) error {
	if err := s.within(t.MaxLead); err != nil {
		return err
	}
	if t.Name == "" || len(key) == 0 {
		return fmt.Errorf("%w: a guarded write needs a table and a key", holdfast.ErrInvalid)
	}
	fence, owner := t.Fence, t.Owner
	if fence == "" {
		fence = "fence"
	}
	if owner == "" {
		owner = "fence_owner"
	}
	for column := range set {
		// SQLite would take the last of two assignments to a column.
		if strings.EqualFold(column, fence) || strings.EqualFold(column, owner) {
			return fmt.Errorf("%w: column %s of the mark is set by hand", holdfast.ErrInvalid, column)
		}
	}
	number := int64(s.Fence)

	write := statement{style: t.Placeholders}
	write.add("UPDATE ", t.Name, " SET ", fence, " = ", write.arg(number), ", ", owner, " = ", write.arg(s.Owner))
	for _, column := range slices.Sorted(maps.Keys(set)) {
		write.add(", ", column, " = ", write.arg(set[column]))
	}
	write.add(" WHERE ", write.names(key), " AND (", fence, " < ", write.arg(number), " OR (", fence, " = ", write.arg(number))
	if !s.Shared {
		write.add(" AND ", owner, " = ", write.arg(s.Owner))
	}
	write.add("))")

	look := statement{style: t.Placeholders}
	look.add("SELECT ", fence, ", ", owner, " FROM ", t.Name, " WHERE ", look.names(key))
	return guarded(ctx, db, s, t.describe(key), &write, &look)
}

// Raise raises the mark of the row with this key, and so shuts out all earlier holders.
// A new holder does this before it reads the row. In a transaction it guards every
// statement about that row which follows, such as total = total + 1.
func (t *Table) Raise(ctx context.Context, db DB, s Stamp, key Columns) error {
	return t.Update(ctx, db, s, key, nil)
}

// names returns the condition that columns have these values.
func (st *statement) names(key Columns) string {
	var parts []string
	for _, column := range slices.Sorted(maps.Keys(key)) {
		parts = append(parts, column+" = "+st.arg(key[column]))
	}
	return strings.Join(parts, " AND ")
}

// describe names a row in errors.
func (t *Table) describe(key Columns) string {
	var parts []string
	for _, column := range slices.Sorted(maps.Keys(key)) {
		parts = append(parts, fmt.Sprintf("%s=%v", column, key[column]))
	}
	return t.Name + " " + strings.Join(parts, " ")
}
