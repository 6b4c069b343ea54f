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

// Columns maps the names of columns to values. The names are put into statements as they are, so they must not come from
// untrusted input.
type Columns map[string]any

// Table is a table in which each row has its own mark, in two columns:
//
//	fence       BIGINT NOT NULL DEFAULT 0,
//	fence_owner TEXT   NOT NULL DEFAULT ''
//
// A write compares and raises the mark in one UPDATE:
//
//	UPDATE ledger SET total = :total, fence = :f, fence_owner = :o
//	WHERE id = :id AND (fence < :f OR (fence = :f AND fence_owner = :o))
//
// If the Stamp is Shared, an equal fence is enough.
//
// Deleting a row deletes its mark, so a stale writer that inserts the row again is not refused.
type Table struct {
	// Name is the table's name, as it is put into statements.
	Name string
	// Fence and Owner are the mark's columns. The defaults are "fence" and "fence_owner".
	Fence, Owner string
	// Placeholders is the style of the database's driver. The default is Question.
	Placeholders Placeholders
	// MaxLead is as in RedisConfig.
	MaxLead time.Duration
}

// Update sets columns of the row with this key. The columns of the key must identify one row; otherwise Update may write
// several rows and then return an error. If the row has seen a later holder, Update returns a *StaleError and changes
// nothing. If the row does not exist, the error wraps sql.ErrNoRows. In a transaction the row stays locked until the end.
func (t *Table) Update(ctx context.Context, db DB, s Stamp, key, set Columns) error {
	if err := s.within(t.MaxLead); err != nil {
		return err
	}
	if t.Name == "" || len(key) == 0 {
		return fmt.Errorf("%w: a guarded write needs a table name and a key", holdfast.ErrInvalid)
	}
	fence, owner := t.Fence, t.Owner
	if fence == "" {
		fence = "fence"
	}
	if owner == "" {
		owner = "fence_owner"
	}
	for column := range set {
		// SQLite would use the last of two assignments to a column.
		if strings.EqualFold(column, fence) || strings.EqualFold(column, owner) {
			return fmt.Errorf("%w: column %s belongs to the mark; it cannot be set", holdfast.ErrInvalid, column)
		}
	}
	value := int64(s.Fence)
	write := statement{style: t.Placeholders}
	write.add("UPDATE ", t.Name, " SET ", fence, " = ", write.arg(value), ", ", owner, " = ", write.arg(s.Owner))
	for _, column := range slices.Sorted(maps.Keys(set)) {
		write.add(", ", column, " = ", write.arg(set[column]))
	}
	write.add(" WHERE ", write.equal(key), " AND (", fence, " < ", write.arg(value), " OR (", fence, " = ", write.arg(value))
	if !s.Shared {
		write.add(" AND ", owner, " = ", write.arg(s.Owner))
	}
	write.add("))")

	read := statement{style: t.Placeholders}
	read.add("SELECT ", fence, ", ", owner, " FROM ", t.Name, " WHERE ", read.equal(key))
	return writeGuarded(ctx, db, s, t.describe(key), &write, &read)
}

// Raise raises the mark of the row with this key, and so shuts out all earlier holders. A new holder calls it before it
// reads the row. In a transaction it guards all later statements about the row, such as total = total + 1.
func (t *Table) Raise(ctx context.Context, db DB, s Stamp, key Columns) error {
	return t.Update(ctx, db, s, key, nil)
}

// describe returns a row's name for errors.
func (t *Table) describe(key Columns) string {
	var parts []string
	for _, column := range slices.Sorted(maps.Keys(key)) {
		parts = append(parts, fmt.Sprintf("%s=%v", column, key[column]))
	}
	return t.Name + " " + strings.Join(parts, " ")
}
