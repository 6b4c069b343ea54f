package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

type lsFlags struct {
	serverFlags
	waiting bool
	older   time.Duration
	sort    string
}

func ls(f *pflag.FlagSet) action {
	o := &lsFlags{}
	o.role = "inspector"
	f.BoolVar(&o.waiting, "waiting", false, "only locks that somebody waits for")
	f.Var((*seconds)(&o.older), "older-than", "only locks held for longer than `DUR`")
	f.StringVar(&o.sort, "sort", byName, orders)
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			if err := o.checkOrder(o.sort); err != nil {
				return err
			}
			if o.servers.AreQuorum() && o.waiting {
				return exitcode.Usagef("it is not known who waits for a lock of a quorum: leave out --waiting")
			}
			return o.list(ctx, in, stdout)
		})
	}
}

// The orders of a table.
const (
	byName    = "name"
	byAge     = "age"
	byWaiters = "waiters"
	orders    = "`ORDER` of the table: name, age (the oldest first), or waiters (the most first)"
)

func (o *serverFlags) checkOrder(order string) error {
	switch {
	case order != byName && order != byAge && order != byWaiters:
		return exitcode.Usagef("--sort %q: want name, age or waiters", order)
	case order == byWaiters && o.servers.AreQuorum():
		return exitcode.Usagef("it is not known who waits for a lock of a quorum: leave out --sort waiters")
	}
	return nil
}

// list prints the locks, even if an error ends the list early. It reports locks that the user may not read on the console.
func (o *lsFlags) list(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	var rows []lockstatus.Summary
	var denied, failed error
	listed, found := false, false
	for s, err := range in.List(ctx, o.flags.Arg(0)) {
		switch {
		case err != nil && s.Name == "":
			failed = err
			continue
		case err != nil:
			o.console.Error(err)
			denied = cmp.Or(denied, err)
			continue
		}
		found = true
		l := lockstatus.Summarize(s)
		if o.waiting && l.Waiting == 0 || o.older > 0 && (s.Kind == holdfast.KindElection || l.Age <= o.older) {
			continue
		}
		listed = true
		if !o.json {
			rows = append(rows, l)
		} else if err := printJSON(stdout, lockstatus.NewReport(s, o.servers.AreQuorum())); err != nil {
			return err
		}
	}
	if err := printLocks(stdout, sorted(rows, o.sort)); err != nil {
		return err
	}
	absent, _ := access.Absent(in)
	for _, err := range absent {
		o.console.Warnf("%v; the other nodes are a majority, and know who holds which lock", err)
	}
	switch {
	case failed != nil:
		return failed
	case denied != nil:
		return &exitcode.Error{Code: exitcode.OfLibrary(denied).Code}
	case listed:
		return nil
	}
	if !o.json {
		o.console.Notef("no lock is listed of those under the prefix %q; --prefix or HOLDFAST_PREFIX names another, and in a pattern * "+
			"stands for any characters but /", cmp.Or(o.prefix, "holdfast:"))
	}
	if !found && isPattern(o.flags.Arg(0)) { // not for a single name, which needs fewer rights
		o.elsewhere(ctx, "", o.console.Notef)
	}
	return &exitcode.Error{Code: exitcode.None}
}

// sorted sorts locks, and returns them.
func sorted(locks []lockstatus.Summary, order string) []lockstatus.Summary {
	rank := func(l lockstatus.Summary) int64 {
		switch {
		case order == byWaiters:
			return int64(l.Waiting)
		case order != byAge:
			return 0
		case l.Kind == string(holdfast.KindElection):
			return -1 // leading for long is no sign of trouble
		}
		return int64(l.Age)
	}
	slices.SortFunc(locks, func(a, b lockstatus.Summary) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), strings.Compare(a.Name, b.Name))
	})
	return locks
}

var lockColumns = []column{
	{title: "NAME", least: 12}, {title: "KIND", expendable: true}, {title: "HOLDER", least: 10}, {title: "AGE", right: true},
	{title: "TTL", right: true, expendable: true}, {title: "WAITING", right: true}, {title: "GRANT", expendable: true},
}

func lockRow(l lockstatus.Summary) []string {
	return []string{l.Name, l.Kind, l.Holders, lockstatus.Age(l.Age), lockstatus.Age(l.TTL), cmp.Or(l.Awaited(), "-"), cmp.Or(l.Grant, "-")}
}

// printLocks prints a table that fits the terminal, if there are any locks.
func printLocks(w io.Writer, locks []lockstatus.Summary) error {
	if len(locks) == 0 {
		return nil
	}
	var rows [][]string
	for _, l := range locks {
		rows = append(rows, lockRow(l))
	}
	columns := 0
	if f, is := w.(*os.File); is {
		columns, _, _ = terminal.Size(f)
	}
	layout := fit(lockColumns, rows, columns)
	text := []string{console.Styles(console.HasStyles(w)).Bold(layout.header())}
	for _, row := range rows {
		text = append(text, layout.line(row))
	}
	return printText(w, strings.Join(text, "\n")+"\n")
}

// column is a column of a table.
type column struct {
	title string
	right bool // aligned to the right
	// least is the width to which the column may be cut if the table is too wide; 0 if it is never cut.
	least int
	// expendable columns are left out if the table is still too wide, the last one first.
	expendable bool
}

const gap = 2

// layout says how wide each column of a table is.
type layout struct {
	columns []column
	widths  []int // -1 for a column that is left out
}

// fit returns the layout of a table with these rows for a terminal of this width; 0 means any width.
func fit(columns []column, rows [][]string, terminal int) *layout {
	l := &layout{columns: columns}
	for i, c := range columns {
		width := textWidth(c.title)
		for _, row := range rows {
			width = max(width, textWidth(row[i]))
		}
		l.widths = append(l.widths, width)
	}
	if terminal <= 0 {
		return l
	}
	for i := len(columns) - 1; i >= 0 && l.width(true) > terminal; i-- {
		if columns[i].expendable {
			l.widths[i] = -1
		}
	}
	for l.width(false) > terminal {
		widest := -1
		for i, c := range columns {
			if c.least > 0 && l.widths[i] > c.least && (widest < 0 || l.widths[i] > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		l.widths[widest]--
	}
	return l
}

// width returns the width of the table; if cut is set, with its columns cut as short as possible.
func (l *layout) width(cut bool) int {
	sum := -gap
	for i, w := range l.widths {
		if least := l.columns[i].least; cut && least > 0 {
			w = min(w, least)
		}
		if w >= 0 {
			sum += w + gap
		}
	}
	return sum
}

// header returns the line with the titles.
func (l *layout) header() string {
	var titles []string
	for _, c := range l.columns {
		titles = append(titles, c.title)
	}
	return l.line(titles)
}

// line returns a row as a line, without spaces at its end.
func (l *layout) line(row []string) string {
	var b strings.Builder
	for i, cell := range row {
		width := l.widths[i]
		if width < 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if l.columns[i].least > 0 {
			cell = cut(cell, width)
		}
		padding := strings.Repeat(" ", max(width-textWidth(cell), 0))
		if l.columns[i].right {
			b.WriteString(padding + cell)
		} else {
			b.WriteString(cell + padding)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut shortens a text to a width. If it cuts something off, it ends the text with an ellipsis, within that width.
func cut(text string, width int) string {
	if textWidth(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken+runeWidth(r) > width-1 {
			return text[:i] + "…"
		}
		taken += runeWidth(r)
	}
	return text
}

// textWidth returns how many columns of a terminal a text takes. The text must have no control characters.
func textWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		0x3000 <= r && r <= 0x303f, 0xff00 <= r && r <= 0xff60, 0x1f300 <= r && r <= 0x1faff: // and wide punctuation, and emoji
		return 2
	}
	return 1
}
