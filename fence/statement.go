package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// statement builds an SQL statement.
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

// equal returns the condition that the columns have these values.
func (st *statement) equal(key Columns) string {
	var parts []string
	for _, column := range slices.Sorted(maps.Keys(key)) {
		parts = append(parts, column+" = "+st.arg(key[column]))
	}
	return strings.Join(parts, " AND ")
}

// maxTries bounds how often writeGuarded starts over because a row appeared or disappeared between its two statements.
const maxTries = 5

// writeGuarded runs a statement that writes one row unless the row's mark refuses the stamp. If it wrote none,
// writeGuarded finds out why with read, which selects the mark's fence and owner.
func writeGuarded(ctx context.Context, db DB, s Stamp, resource string, write, read *statement) error {
	for range maxTries {
		result, err := db.ExecContext(ctx, write.text.String(), write.args...)
		if err != nil {
			return fmt.Errorf("holdfast: guarded write to %q: %w", resource, err)
		}
		n, err := result.RowsAffected()
		switch {
		case err != nil:
			return fmt.Errorf("holdfast: guarded write to %q: counting rows: %w", resource, err)
		case n == 1:
			return nil
		case n != 0:
			return fmt.Errorf("holdfast: guarded write to %q: wrote %d rows, not 1; the key must identify one row", resource, n)
		}
		var fence sql.NullInt64
		var owner sql.NullString
		switch err := db.QueryRowContext(ctx, read.text.String(), read.args...).Scan(&fence, &owner); {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("holdfast: guarded write to %q: the row does not exist: %w", resource, err)
		case err != nil:
			return fmt.Errorf("holdfast: guarded write to %q: %w", resource, err)
		case !fence.Valid || fence.Int64 < 0 || !owner.Valid:
			return fmt.Errorf("%w: resource %q has NULL or a negative fence", ErrBadMark, resource)
		}
		if mark := (Mark{uint64(fence.Int64), owner.String}); mark.refuses(s) {
			return &StaleError{Resource: resource, Stamp: s, Mark: mark}
		}
	}
	return fmt.Errorf("holdfast: guarded write to %q: the row or its mark changed during each of %d tries", resource, maxTries)
}
