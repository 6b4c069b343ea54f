package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fullscreen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/table"
)

// watchFlags are the flags and arguments of holdfast watch.
type watchFlags struct {
	lookFlags
	pattern string
	sort    string
}

const watchHelp = `Usage: holdfast watch [flags] [PATTERN]

Shows the locks whose names match PATTERN, as for holdfast ls, or all: on a terminal as
a table that fills it and is renewed every second, until ^C; otherwise, and with --json,
as a line of JSON for each change.

  holdfast watch
  holdfast watch 'orders/*' --sort waiters
  holdfast watch nightly | jq -r '.event + " " + .holders[0].owner'

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Changes: event is present (the lock was there at first), granted, queued (somebody
  waits who did not before), released (or broken: see holdfast breaks) or expired; the
  other fields, as holdfast ls --json has them, are those of the lock after it. The
  locks are looked at once a second, so what comes and goes in between is not seen. If
  there are so many that a look takes longer, the next begins after a pause as long.
  While the server does not answer, watching goes on; only a server that has never
  answered is an error. Of a quorum it is not known who waits: nothing is queued, and
  --sort waiters is refused.

If the prefix has no locks in the beginning, a line on standard error, or below the table,
names each other prefix that has some.

Exit codes: 64 wrong usage, 69 unavailable, 77 refused, 78 wrong configuration,
130 interrupted (INT; also 129, 131, 143), 141 if nobody reads the lines any more.
`

func watch(f *pflag.FlagSet) action {
	o := &watchFlags{}
	f.StringVar(&o.sort, "sort", byName, "`ORDER` of the table: name, age (the oldest first), or waiters (the most first)")
	o.define(f, "a line of JSON for each change, also on a terminal")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		o.pattern = f.Arg(0)
		if !slices.Contains([]string{byName, byAge, byWaiters}, o.sort) {
			return exitcode.Usagef("--sort %q: want name, age or waiters", o.sort)
		}
		return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			if o.servers.AreQuorum() && o.sort == byWaiters {
				return exitcode.Usagef("it is not known who waits for a lock of a quorum: leave out --sort waiters")
			}
			if screen := fullscreen.Of(stdout); screen != nil && !o.json {
				return o.fill(ctx, in, screen)
			}
			return o.follow(ctx, in, stdout)
		})
	}
}

// name is the name of the one lock that is watched, or "".
func (o *watchFlags) name() string {
	if isPattern(o.pattern) {
		return ""
	}
	return o.pattern
}

// change is a change as JSON.
type change struct {
	Event inspect.EventType `json:"event"`
	*lockstatus.Report
}

// follow prints each change, until ctx ends.
func (o *watchFlags) follow(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	// Watching waits for a server that does not answer. Asking first tells of a wrong address.
	if err := access.Reach(ctx, in, "watch", o.pattern); err != nil {
		return err
	}
	go o.elsewhere(ctx, o.name(), o.console.Notef)
	outage := false
	for e, err := range in.Watch(ctx, o.pattern) {
		switch {
		case err == nil:
			outage = false
			if err := printJSON(stdout, change{e.Type, o.report(e.Status)}); err != nil {
				return err
			}
		case e.Status.Name != "":
			o.console.Error(err)
		case !errors.Is(err, holdfast.ErrUnavailable):
			return err
		case !outage:
			outage = true
			o.console.Warnf("%v; watching goes on", err)
		}
	}
	return ctx.Err()
}

const (
	// watchPeriod is the time between the beginnings of two looks.
	watchPeriod = time.Second
	// mostWatched bounds how many locks the table has, whatever the size of the terminal.
	mostWatched = 1000
)

// fill fills the terminal with a table, until ctx ends.
func (o *watchFlags) fill(ctx context.Context, in *inspect.Inspector, screen *fullscreen.Screen) error {
	b := &board{o: o}
	if err := b.look(ctx, in); err != nil {
		return err
	}
	hints := make(chan string, mostPrefixes)
	go o.elsewhere(ctx, o.name(), func(format string, args ...any) { hints <- fmt.Sprintf(format, args...) })
	screen.Begin()
	defer screen.End()
	for {
		screen.Draw(b.draw)
		pause := time.NewTimer(max(watchPeriod-b.took, b.took))
		select {
		case <-pause.C:
			// What was seen before stays, with the error above it.
			b.err = b.look(ctx, in)
		case hint := <-hints:
			pause.Stop()
			b.hints = append(b.hints, hint)
		case <-screen.Resized():
			pause.Stop()
		case <-screen.Suspended():
			pause.Stop()
			screen.Suspend(ctx)
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		if ctx.Err() == nil && b.err != nil && !errors.Is(b.err, holdfast.ErrUnavailable) {
			return b.err
		}
	}
}

// board is what the table shows.
type board struct {
	o       *watchFlags
	rows    []ranked // the first
	locks   int
	held    int
	waiting int // processes
	standby int // candidates of elections that have a leader
	seen    time.Time
	took    time.Duration // the latest look
	err     error         // of the latest look
	hints   []string      // at other prefixes, for when there are no locks
}

// look looks at all locks.
func (b *board) look(ctx context.Context, in *inspect.Inspector) error {
	began := time.Now()
	defer func() { b.took = time.Since(began) }()
	next := board{o: b.o, hints: b.hints}
	first := ranking{order: b.o.sort, limit: mostWatched}
	for s, err := range in.List(ctx, b.o.pattern) {
		if err != nil && s.Name != "" {
			continue // holdfast ls says why
		}
		if err != nil {
			return err
		}
		next.locks++
		waiting, standby := lockstatus.Waiting(s)
		next.waiting += waiting
		next.standby += standby
		if s.Held() {
			next.held++
		}
		first.add(ranked{Summary: lockstatus.Summarize(s)})
	}
	next.rows, next.seen = first.sorted(), time.Now()
	*b = next
	return nil
}

// draw returns the lines for a terminal of that size.
func (b *board) draw(s *fullscreen.Screen, columns, rows int) []string {
	what := "all locks"
	if b.o.pattern != "" {
		what = printable.Line(b.o.pattern, maxPattern)
	}
	waiting := fmt.Sprintf("%d waiting", b.waiting)
	switch {
	case b.o.servers.AreQuorum():
		waiting = "waiters not known"
	case b.standby > 0:
		waiting += fmt.Sprintf(", %d standby", b.standby)
	}
	head := fmt.Sprintf("%s on %s: %d, %d held, %s", what, printable.Line(b.o.servers.Addr(), maxPattern), b.locks, b.held, waiting)
	at := b.seen.Format(time.TimeOnly)
	if room := columns - len(at) - 1; room > 20 {
		head = table.Cut(head, room)
		head += strings.Repeat(" ", room-table.Width(head)+1) + at
	}
	lines := []string{s.Bold(table.Cut(head, columns))}
	if b.err != nil {
		text := strings.TrimPrefix(b.o.console.Redact(b.err.Error()), "holdfast: ")
		lines = append(lines, s.Red(table.Cut(printable.Line("as of "+at+": "+text, maxPattern), columns)))
	}
	shown := b.rows[:min(len(b.rows), max(rows-len(lines)-2, 0))]
	var cells [][]string
	for _, r := range shown {
		cells = append(cells, lockRow(r.Summary))
	}
	layout := table.Fit(lockColumns, cells, columns)
	lines = append(lines, s.Dim(table.Cut(layout.Header(), columns)))
	for i, r := range shown {
		line := table.Cut(layout.Line(cells[i]), columns)
		if r.Waiting > 0 {
			line = s.Yellow(line)
		}
		lines = append(lines, line)
	}
	if b.locks == 0 {
		for _, hint := range b.hints {
			lines = append(lines, table.Cut(printable.Line(hint, maxPattern), columns))
		}
	}
	if left := b.locks - len(shown); left > 0 {
		lines = append(lines, s.Dim(fmt.Sprintf("and %d more", left)))
	}
	return lines[:min(len(lines), rows)]
}

// maxPattern bounds what is shown of a text above the table, in bytes.
const maxPattern = 1024
