package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
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

type lsFlags struct {
	serverFlags
	waiting bool
	older   time.Duration
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

func ls(f *pflag.FlagSet) action {
	o := &lsFlags{}
	o.role = "inspector"
	f.BoolVar(&o.waiting, "waiting", false, "only locks that somebody waits for")
	f.Var((*seconds)(&o.older), "older-than", "only locks held for longer than `DUR`")
	f.StringVar(&o.sort, "sort", "", "`ORDER`: name, age (the oldest first), waiters (the most first), or none, as they are found "+
		"(default name; with --json none)")
	f.IntVarP(&o.limit, "limit", "n", 0, "only the first `N` in that order")
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if o.sort == "" && o.json {
			o.sort = unsorted
		}
		switch {
		case !slices.Contains([]string{"", byName, byAge, byWaiters, unsorted}, o.sort):
			return exitcode.Usagef("--sort %q: want name, age, waiters or none", o.sort)
		case o.limit < 0 || o.limit == 0 && f.Changed("limit"):
			return exitcode.Usagef("--limit %d: want at least 1", o.limit)
		}
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			if o.servers.AreQuorum() && (o.waiting || o.sort == byWaiters) {
				return exitcode.Usagef("it is not known who waits for a lock of a quorum: leave out --waiting and --sort waiters")
			}
			return o.list(ctx, in, stdout)
		})
	}
}

// list prints the locks, even if an error ends the list early. It reports locks that the user may not read on the console.
func (o *lsFlags) list(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	locks := ranking{order: o.sort, limit: o.limit}
	to := &listWriter{w: stdout, json: o.json}
	var denied, failed error
	n, found := 0, false
	for s, err := range in.List(ctx, o.flags.Arg(0)) {
		l := listed{Summary: lockstatus.Summarize(s)}
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
		if o.waiting && l.Waiting == 0 || o.older > 0 && (s.Kind == holdfast.KindElection || l.Age <= o.older) {
			continue
		}
		if o.json {
			l.report = lockstatus.NewReport(s, o.servers.AreQuorum())
		}
		n++
		locks.add(l)
		if o.sort == unsorted && (len(locks.all) == atOnce || n == o.limit) {
			if err := to.write(locks.all); err != nil {
				return err
			}
			if locks.all = locks.all[:0]; n == o.limit {
				break
			}
		}
	}
	if err := to.write(locks.sorted()); err != nil {
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
	case n > 0:
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

type listed struct {
	lockstatus.Summary
	report *lockstatus.Report // nil without --json
}

// ranking keeps the first locks in an order: all, or as many as limit says unless it is 0.
type ranking struct {
	order string
	limit int
	all   []listed
}

func (r *ranking) add(l listed) {
	r.all = append(r.all, l)
	if r.limit > 0 && len(r.all) >= 2*r.limit+atOnce { // bounds the memory
		r.sorted()
	}
}

// sorted returns the first locks in the order, and forgets the others.
func (r *ranking) sorted() []listed {
	if r.order != unsorted {
		slices.SortFunc(r.all, func(a, b listed) int {
			return cmp.Or(cmp.Compare(r.rank(b), r.rank(a)), strings.Compare(a.Name, b.Name))
		})
	}
	if r.limit > 0 && len(r.all) > r.limit {
		clear(r.all[r.limit:])
		r.all = r.all[:r.limit]
	}
	return r.all
}

// rank returns a lock's rank. The lock with the highest rank comes first.
func (r *ranking) rank(l listed) int64 {
	switch {
	case r.order == byWaiters:
		return int64(l.Waiting)
	case r.order != byAge:
		return 0
	case l.Kind == string(holdfast.KindElection):
		return -1 // leading for long is no sign of trouble
	}
	return int64(l.Age)
}

var lockColumns = []table.Column{
	{Title: "NAME", Least: 12}, {Title: "KIND", Expendable: true}, {Title: "HOLDER", Least: 10}, {Title: "AGE", Right: true},
	{Title: "TTL", Right: true, Expendable: true}, {Title: "WAITING", Right: true}, {Title: "GRANT", Expendable: true},
}

func lockRow(l listed) []string {
	return []string{l.Name, l.Kind, l.Holders, lockstatus.Age(l.Age), lockstatus.Age(l.TTL), cmp.Or(l.Awaited(), "-"), cmp.Or(l.Grant, "-")}
}

// atOnce is how many locks are written at once if they are not sorted. The first of these batches decides the widths of the columns.
const atOnce = 100

// listWriter writes locks as a table that fits the terminal, or each as a line of JSON.
type listWriter struct {
	w      io.Writer
	json   bool
	layout *table.Layout // nil before the first batch
}

func (to *listWriter) write(locks []listed) error {
	var rows [][]string
	for _, l := range locks {
		if !to.json {
			rows = append(rows, lockRow(l))
		} else if err := printJSON(to.w, l.report); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	var text strings.Builder
	if to.layout == nil {
		columns := 0
		if f, is := to.w.(*os.File); is {
			columns, _, _ = tty.Size(f)
		}
		to.layout = table.Fit(lockColumns, rows, columns)
		text.WriteString(console.Styles(console.HasStyles(to.w)).Text("1", to.layout.Header()) + "\n")
	}
	for _, row := range rows {
		text.WriteString(to.layout.Line(row) + "\n")
	}
	return printText(to.w, text.String())
}
