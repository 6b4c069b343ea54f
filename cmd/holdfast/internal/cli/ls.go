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

var lockColumns = []table.Column{
	{Title: "NAME", Least: 12}, {Title: "KIND", Expendable: true}, {Title: "HOLDER", Least: 10}, {Title: "AGE", Right: true},
	{Title: "TTL", Right: true, Expendable: true}, {Title: "WAITING", Right: true}, {Title: "GRANT", Expendable: true},
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
	layout := table.Fit(lockColumns, rows, columns)
	text := []string{console.Styles(console.HasStyles(w)).Bold(layout.Header())}
	for _, row := range rows {
		text = append(text, layout.Line(row))
	}
	return printText(w, strings.Join(text, "\n")+"\n")
}
