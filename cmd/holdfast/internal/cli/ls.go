package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/table"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// lsFlags are the flags and arguments of holdfast ls.
type lsFlags struct {
	lookFlags
	pattern string
	held    bool
	waiting bool
	older   time.Duration
	kind    string
	sort    string
	limit   int
}

// The orders of a list.
const (
	byName    = "name"
	byAge     = "age"
	byWaiters = "waiters"
	unsorted  = "none"
)

// kindNames are the kinds of locks that --kind takes.
var kindNames = []string{
	string(holdfast.KindMutex), string(holdfast.KindRWMutex), string(holdfast.KindSemaphore), string(holdfast.KindOwner), string(holdfast.KindElection),
	string(holdfast.KindLatch), string(holdfast.KindBarrier), string(holdfast.KindRedisson), string(holdfast.KindForeign),
}

const lsHelp = `Usage: holdfast ls [flags] [PATTERN]

Lists the locks whose names match PATTERN, of every kind, with who holds them, for how
long, and how many wait. Without PATTERN it lists all. In a PATTERN * stands for any
characters but /, ? for one, and [a-z] for one of those; quote it for the shell.

  holdfast ls                                # all locks
  holdfast ls 'orders/*' --waiting           # those that somebody waits for
  holdfast ls --older-than 1h                # locks held for longer than an hour
  holdfast ls orders                         # the lock orders, and the exact key orders
  holdfast ls --sort waiters -n 20           # the 20 that most wait for
  holdfast ls --json | jq -r .name

A lock is listed if somebody holds it or waits for it; a latch until it is open; a
semaphore also if holdfast resize has set its number of permits. A lock with an exact
key (holdfast run --key, --redisson) is always listed if PATTERN is that key, without
wildcards; otherwise only while somebody waits for it. The server goes on serving others
meanwhile, and with --sort none the list needs the same memory however long it is. If a
master of a Cluster is down, the locks of the others are listed, and the exit code is 69.
If the prefix has no locks, a line names each other prefix that has some.

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Columns: AGE is how long the oldest holder has held the lock, TTL what is left until the
  first would lose it without a renewal, WAITING how many processes wait. GRANT is the
  holder's grant id, for holdfast break and revoke; of several holders, holdfast show has
  them. On a terminal, columns are cut or left out to fit. Of a quorum it is not known who
  waits.

Elections: while an election has a leader, its candidates stand by ("2 standby"): they do
  not count as waiting, also for --waiting and --sort waiters. --older-than leaves
  elections out, and --sort age lists them last.

JSON: time (the server's), name, key, kind, held, fence, limit, count; holders, each with
  identity, host, pid, meta, mode, permits, grant, fence (if it is known yet), since and
  ttl_ms, which is null if it does not expire; waiting, and waiters, the first 100, in
  their order (both null of a quorum).

Exit codes: 0 some are listed, 1 none, 64 wrong usage, 69 unavailable, 77 refused,
78 wrong configuration, 130 interrupted (INT; also 129, 131, 143).
`

func ls(f *pflag.FlagSet) action {
	o := &lsFlags{}
	f.BoolVar(&o.held, "held", false, "only locks that somebody holds")
	f.BoolVar(&o.waiting, "waiting", false, "only locks that somebody waits for")
	f.Var((*seconds)(&o.older), "older-than", "only locks held for longer than `DUR`")
	f.StringVar(&o.kind, "kind", "", "only locks of this `KIND`: "+strings.Join(kindNames, ", "))
	f.StringVar(&o.sort, "sort", "", "`ORDER`: name, age (the oldest first), waiters (the most first), or none, as they\nare found (default name; with --json none)")
	f.IntVarP(&o.limit, "limit", "n", 0, "only the first `N` in that order")
	o.define(f, "a line of JSON for each lock")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		o.pattern = f.Arg(0)
		if o.sort == "" {
			o.sort = byName
			if o.json {
				o.sort = unsorted
			}
		}
		switch {
		case !slices.Contains([]string{byName, byAge, byWaiters, unsorted}, o.sort):
			return exitcode.Usagef("--sort %q: want name, age, waiters or none", o.sort)
		case o.kind != "" && !slices.Contains(kindNames, o.kind):
			return exitcode.Usagef("--kind %q: want one of %s", o.kind, strings.Join(kindNames, ", "))
		case o.limit < 0 || o.limit == 0 && f.Changed("limit"):
			return exitcode.Usagef("--limit %d: want at least 1", o.limit)
		}
		return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error { return o.list(ctx, in, stdout) })
	}
}

// list prints the locks. Locks that the server does not show it reports on the console.
func (o *lsFlags) list(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	if o.servers.AreQuorum() && (o.waiting || o.sort == byWaiters) {
		return exitcode.Usagef("it is not known who waits for a lock of a quorum: leave out --waiting and --sort waiters")
	}
	first := ranking{order: o.sort, limit: o.limit}
	to := newTableWriter(stdout)
	flush := func() error {
		all := first.sorted()
		if !o.json {
			for _, r := range all {
				to.first = append(to.first, lockRow(r.Summary))
			}
			return to.flush()
		}
		for _, r := range all {
			if err := printJSON(stdout, r.report); err != nil {
				return err
			}
		}
		return nil
	}
	var denied error
	n, found := 0, false
	for s, err := range in.List(ctx, o.pattern) {
		switch {
		case err != nil && s.Name == "":
			return cmp.Or(flush(), err)
		case err != nil:
			o.console.Error(err)
			denied = cmp.Or(denied, err)
			continue
		}
		if found = true; !o.wants(s) {
			continue
		}
		n++
		next := ranked{Summary: lockstatus.Summarize(s)}
		if o.json {
			next.report = o.report(s)
		}
		var failed error
		switch {
		case o.sort != unsorted:
			first.add(next)
		case o.json:
			failed = printJSON(stdout, next.report)
		default:
			failed = to.add(lockRow(next.Summary))
		}
		if failed != nil {
			return failed
		}
		if o.sort == unsorted && n == o.limit {
			break
		}
	}
	if err := flush(); err != nil {
		return err
	}
	for _, err := range access.Absent(in) {
		o.console.Warnf("%v; the other nodes are a majority, and know who holds which lock", err)
	}
	switch {
	case denied != nil:
		return &exitcode.Error{Code: exitcode.OfLibrary(denied).Code}
	case n == 0:
		if !o.json {
			o.console.Notef("%s", o.nothing())
		}
		if !found && isPattern(o.pattern) { // Listing a single name needs fewer rights.
			o.elsewhere(ctx, "", o.console.Notef)
		}
		return &exitcode.Error{Code: exitcode.None}
	}
	return nil
}

// nothing says that no lock is listed.
func (o *lsFlags) nothing() string {
	switch {
	case o.held || o.waiting || o.older > 0 || o.kind != "":
		return "no lock in use fits these flags"
	case o.pattern == "":
		return fmt.Sprintf("no lock is held or waited for under the prefix %q; --prefix or HOLDFAST_PREFIX names another", cmp.Or(o.prefix, "holdfast:"))
	case strings.Contains(o.pattern, "*"):
		return "no lock in use matches; * stands for any characters but /"
	}
	return "no lock in use has that name, nor that exact key as far as this user may read it"
}

func (o *lsFlags) wants(s holdfast.Status) bool {
	waiting, _ := lockstatus.Waiting(s)
	if o.older > 0 && (s.Kind == holdfast.KindElection || lockstatus.Summarize(s).Age <= o.older) {
		return false
	}
	return (!o.held || s.Held()) && (!o.waiting || waiting > 0) && (o.kind == "" || o.kind == string(s.Kind))
}

// ranking keeps what is to be printed of each lock, up to a limit, until all are known.
type ranking struct {
	order string
	limit int
	all   []ranked
}

// ranked is what is printed of a lock.
type ranked struct {
	lockstatus.Summary
	report *lockstatus.Report // nil without --json
}

func (l *ranking) add(r ranked) {
	l.all = append(l.all, r)
	if l.limit > 0 && len(l.all) >= 2*l.limit+100 { // so that no more than that is kept
		l.sorted()
	}
}

// sorted returns the first in order, and forgets the others.
func (l *ranking) sorted() []ranked {
	slices.SortFunc(l.all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(l.rank(b), l.rank(a)), strings.Compare(a.Name, b.Name))
	})
	if l.limit > 0 && len(l.all) > l.limit {
		clear(l.all[l.limit:])
		l.all = l.all[:l.limit]
	}
	return l.all
}

// rank decides on the place of a lock. The highest comes first.
func (l *ranking) rank(r ranked) int64 {
	switch {
	case l.order == byWaiters:
		return int64(r.Waiting)
	case l.order != byAge:
		return 0
	case r.Kind == string(holdfast.KindElection):
		return -1 // elections come last: a leader leads for as long as all is well
	}
	return int64(r.Age)
}

// lockColumns are the columns of a list of locks.
var lockColumns = []table.Column{
	{Title: "NAME", Least: 12}, {Title: "KIND", Expendable: true}, {Title: "HOLDER", Least: 10},
	{Title: "AGE", Right: true}, {Title: "TTL", Right: true, Expendable: true}, {Title: "WAITING", Right: true}, {Title: "GRANT", Expendable: true},
}

// lockRow returns the cells of a lock.
func lockRow(s lockstatus.Summary) []string {
	waiting := "-"
	switch {
	case s.Waiting > 0:
		waiting = strconv.Itoa(s.Waiting)
	case s.Standby > 0:
		waiting = fmt.Sprintf("%d standby", s.Standby)
	}
	return []string{s.Name, s.Kind, s.Holders, lockstatus.Age(s.Age), lockstatus.Age(s.TTL), waiting, cmp.Or(s.Grant, "-")}
}

// tableWriter prints a table.
type tableWriter struct {
	w       io.Writer
	columns int // of the terminal; 0 if it is none
	bold    bool
	layout  *table.Layout // nil before the first line
	first   [][]string
}

func newTableWriter(w io.Writer) *tableWriter {
	t := &tableWriter{w: w}
	if f, ok := w.(*os.File); ok {
		t.columns, _, _ = tty.Size(f)
		t.bold = console.HasStyles(w)
	}
	return t
}

// measured is by how many of the first locks an unsorted list decides on the widths of its columns.
const measured = 100

// add prints a lock at once, but the first together.
func (t *tableWriter) add(row []string) error {
	if t.layout != nil {
		return printText(t.w, t.layout.Line(row)+"\n")
	}
	if t.first = append(t.first, row); len(t.first) == measured {
		return t.flush()
	}
	return nil
}

// flush prints the header and the first locks, unless it has done so, or there are none.
func (t *tableWriter) flush() error {
	if t.layout != nil || len(t.first) == 0 {
		return nil
	}
	t.layout = table.Fit(lockColumns, t.first, t.columns)
	header := t.layout.Header()
	if t.bold {
		header = "\x1b[1m" + header + "\x1b[0m"
	}
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, row := range t.first {
		b.WriteString(t.layout.Line(row) + "\n")
		if b.Len() > 32<<10 {
			if err := printText(t.w, b.String()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return printText(t.w, b.String())
}
