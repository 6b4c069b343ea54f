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
	update, args := "UPDATE "+t.Name+" SET fence = ?, fence_owner = ?", []any{int64(s.Fence), s.Owner}
	for _, column := range slices.Sorted(maps.Keys(set)) {
		// SQLite would use the last of two assignments to a column.
		if strings.EqualFold(column, "fence") || strings.EqualFold(column, "fence_owner") {
			return fmt.Errorf("%w: column %s belongs to the mark; it cannot be set", holdfast.ErrInvalid, column)
		}
		update += ", " + column + " = ?"
		args = append(args, set[column])
	}
	var conditions, described []string
	var values []any
	for _, column := range slices.Sorted(maps.Keys(key)) {
		conditions = append(conditions, column+" = ?")
		described = append(described, fmt.Sprintf("%s=%v", column, key[column]))
		values = append(values, key[column])
	}
	where := " WHERE " + strings.Join(conditions, " AND ")
	update += where + " AND (fence < ? OR (fence = ?"
	args = append(append(args, values...), int64(s.Fence), int64(s.Fence))
	if !s.Shared {
		update += " AND fence_owner = ?"
		args = append(args, s.Owner)
	}
	return t.Placeholders.write(ctx, db, s, t.Name+" "+strings.Join(described, " "), update+"))", args,
		"SELECT fence, fence_owner FROM "+t.Name+where, values)
}

// Raise raises the mark of the row with this key, and so shuts out all earlier holders. A new holder calls it before it
// reads the row. In a transaction it guards all later statements about the row, such as total = total + 1.
func (t *Table) Raise(ctx context.Context, db DB, s Stamp, key Columns) error {
	return t.Update(ctx, db, s, key, nil)
}
