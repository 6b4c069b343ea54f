package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

const lsHelp = `Lists the locks whose names match PATTERN, of every kind, with who holds them, for how
long, and how many wait. Without PATTERN it lists all. In a PATTERN * stands for any
characters but /, ? for one, and [a-z] for one of those; quote it for the shell. If none is
listed, the exit code is 1.

  holdfast ls                                # all locks
  holdfast ls 'orders/*' --waiting           # those that somebody waits for
  holdfast ls --older-than 1h                # locks held for longer than an hour
  holdfast ls orders                         # the lock orders, and the exact key orders
  holdfast ls --sort waiters -n 20           # the 20 that most wait for
  holdfast ls --json | jq -r .name

A lock is listed if somebody holds it or waits for it. One with an exact key (holdfast run
--key, --redisson) is listed if PATTERN is that key, without wildcards; otherwise only while
somebody waits for it. If a master of a Cluster is down, the locks of the others are listed,
and the exit code is 69.

AGE is how long the oldest holder has held the lock, TTL what is left until the first would
lose it without a renewal, WAITING how many processes wait, GRANT the holder's grant id, for
holdfast break and revoke. While an election has a leader, its candidates stand by: they do
not count as waiting, and --older-than and --sort age leave elections out or last. Of a
quorum it is not known who waits.
`

// lsFlags are the flags of holdfast ls.
type lsFlags struct {
	serverFlags
	waiting bool
	older   time.Duration
	sort    string
	limit   int
}

func ls(f *pflag.FlagSet) action {
	o := &lsFlags{}
	o.role = "inspector"
	f.BoolVar(&o.waiting, "waiting", false, "only locks that somebody waits for")
	f.Var((*seconds)(&o.older), "older-than", "only locks held for longer than `DUR`")
	f.StringVar(&o.sort, "sort", "name", "`ORDER`: name, age (the oldest first), or waiters (the most first)")
	f.IntVarP(&o.limit, "limit", "n", 0, "only the first `N` in that order")
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		switch {
		case !slices.Contains([]string{"name", "age", "waiters"}, o.sort):
			return exitcode.Usagef("--sort %q: want name, age or waiters", o.sort)
		case o.limit < 0 || o.limit == 0 && f.Changed("limit"):
			return exitcode.Usagef("--limit %d: want at least 1", o.limit)
		}
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			if o.servers.AreQuorum() && (o.waiting || o.sort == "waiters") {
				return exitcode.Usagef("it is not known who waits for a lock of a quorum: leave out --waiting and --sort waiters")
			}
			return o.list(ctx, in, stdout)
		})
	}
}

// listed is a lock of the list.
type listed struct {
	lockstatus.Summary
	report *lockstatus.Report // nil without --json
}

// list prints the locks, also those before an error. Locks that the server does not show it reports on the console.
func (o *lsFlags) list(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	var locks []listed
	var denied, failed error
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
		case o.waiting && l.Waiting == 0, o.older > 0 && (s.Kind == holdfast.KindElection || l.Age <= o.older):
			continue
		case o.json:
			l.report = lockstatus.NewReport(s, o.servers.AreQuorum())
		}
		locks = append(locks, l)
	}
	slices.SortFunc(locks, func(a, b listed) int {
		return cmp.Or(cmp.Compare(o.rank(b), o.rank(a)), strings.Compare(a.Name, b.Name))
	})
	if o.limit > 0 {
		locks = locks[:min(len(locks), o.limit)]
	}
	if err := o.write(stdout, locks); err != nil {
		return err
	}
	for _, err := range access.Absent(in) {
		o.console.Warnf("%v; the other nodes are a majority, and know who holds which lock", err)
	}
	switch {
	case failed != nil:
		return failed
	case denied != nil:
		return &exitcode.Error{Code: exitcode.OfLibrary(denied).Code}
	case len(locks) > 0:
		return nil
	}
	if !o.json {
		o.console.Notef("no lock is listed of those under the prefix %q; --prefix or HOLDFAST_PREFIX names another, and in a pattern * "+
			"stands for any characters but /", cmp.Or(o.prefix, "holdfast:"))
	}
	return &exitcode.Error{Code: exitcode.None}
}

// rank decides on the place of a lock. The highest comes first.
func (o *lsFlags) rank(l listed) int64 {
	switch {
	case o.sort == "waiters":
		return int64(l.Waiting)
	case o.sort != "age":
		return 0
	case l.Kind == string(holdfast.KindElection):
		return -1 // a leader leads for as long as all is well
	}
	return int64(l.Age)
}

// write prints the locks: as a table, unless there are none, or a line of JSON each.
func (o *lsFlags) write(stdout io.Writer, locks []listed) error {
	if o.json {
		for _, l := range locks {
			if err := printJSON(stdout, l.report); err != nil {
				return err
			}
		}
		return nil
	}
	if len(locks) == 0 {
		return nil
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKIND\tHOLDER\tAGE\tTTL\tWAITING\tGRANT")
	for _, l := range locks {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			l.Name, l.Kind, l.Holders, lockstatus.Age(l.Age), lockstatus.Age(l.TTL), cmp.Or(l.Awaited(), "-"), cmp.Or(l.Grant, "-"))
	}
	table.Flush()
	return printText(stdout, text.String())
}
