package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fullscreen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/table"
)

type watchFlags struct {
	serverFlags
	sort string
}

func watch(f *pflag.FlagSet) action {
	o := &watchFlags{}
	o.role = "inspector"
	f.StringVar(&o.sort, "sort", byName, orders)
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			if err := o.checkOrder(o.sort); err != nil {
				return err
			}
			if screen := fullscreen.Of(stdout); screen != nil && !o.json {
				return o.fill(ctx, in, screen)
			}
			return o.follow(ctx, in, stdout)
		})
	}
}

// name returns the name of the only lock that is watched; "" if there may be several.
func (o *watchFlags) name() string {
	if isPattern(o.flags.Arg(0)) {
		return ""
	}
	return o.flags.Arg(0)
}

// change is what --json prints for a change.
type change struct {
	Event inspect.EventType `json:"event"`
	*lockstatus.Report
}

func (o *watchFlags) follow(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	pattern := o.flags.Arg(0)
	// Watch waits for a server that cannot be reached. Asking first reports a wrong address.
	if err := access.Reach(ctx, in, "watch", pattern); err != nil {
		return err
	}
	go o.elsewhere(ctx, o.name(), o.console.Notef)
	outage := false
	for e, err := range in.Watch(ctx, pattern) {
		switch {
		case err == nil:
			outage = false
			if err := printJSON(stdout, change{e.Type, lockstatus.NewReport(e.Status, o.servers.AreQuorum())}); err != nil {
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

// fill shows a table on the whole terminal until ctx ends.
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
		pause := time.NewTimer(max(time.Second-b.took, b.took))
		select {
		case <-pause.C:
			b.err = b.look(ctx, in) // after an error, the board shows what it last saw
		case hint := <-hints:
			b.hints = append(b.hints, hint)
		case <-screen.Resized:
		case <-ctx.Done():
			return ctx.Err()
		}
		pause.Stop()
		if ctx.Err() == nil && b.err != nil && !errors.Is(b.err, holdfast.ErrUnavailable) {
			return b.err
		}
	}
}

// board is what is shown on the terminal.
type board struct {
	o       *watchFlags
	rows    []lockstatus.Summary // in order
	held    int
	waiting int           // number of processes
	standby int           // see lockstatus.Summary
	seen    time.Time     // when the locks were as shown
	took    time.Duration // how long the latest look took
	err     error         // of the latest look
	hints   []string      // other prefixes that have locks, shown if this one has none
}

// look looks at all locks.
func (b *board) look(ctx context.Context, in *inspect.Inspector) error {
	began := time.Now()
	defer func() { b.took = time.Since(began) }()
	next := board{o: b.o, hints: b.hints}
	for s, err := range in.List(ctx, b.o.flags.Arg(0)) {
		if err != nil && s.Name != "" {
			continue // this lock cannot be read; holdfast ls says why
		}
		if err != nil {
			return err
		}
		l := lockstatus.Summarize(s)
		next.waiting += l.Waiting
		next.standby += l.Standby
		if s.Held() {
			next.held++
		}
		next.rows = append(next.rows, l)
	}
	sorted(next.rows, b.o.sort)
	next.seen = time.Now()
	*b = next
	return nil
}

// maxTitle bounds texts outside the table, in bytes.
const maxTitle = 1024

func (b *board) draw(s *fullscreen.Screen, columns, rows int) []string {
	what := "all locks"
	if pattern := b.o.flags.Arg(0); pattern != "" {
		what = printable.Line(pattern, maxTitle)
	}
	waiting := fmt.Sprintf("%d waiting", b.waiting)
	switch {
	case b.o.servers.AreQuorum():
		waiting = "waiters not known"
	case b.standby > 0:
		waiting += fmt.Sprintf(", %d standby", b.standby)
	}
	head := fmt.Sprintf("%s on %s: %d, %d held, %s", what, printable.Line(b.o.servers.Addr(), maxTitle), len(b.rows), b.held, waiting)
	at := b.seen.Format(time.TimeOnly)
	if room := columns - len(at) - 1; room > 20 {
		head = table.Cut(head, room)
		head += strings.Repeat(" ", room-table.Width(head)+1) + at
	}
	lines := []string{s.Bold(table.Cut(head, columns))}
	if b.err != nil {
		text := strings.TrimPrefix(b.o.console.Redact(b.err.Error()), "holdfast: ")
		lines = append(lines, s.Red(table.Cut(printable.Line("as of "+at+": "+text, maxTitle), columns)))
	}
	shown := b.rows[:min(len(b.rows), max(rows-len(lines)-2, 0))]
	var cells [][]string
	for _, l := range shown {
		cells = append(cells, lockRow(l))
	}
	layout := table.Fit(lockColumns, cells, columns)
	lines = append(lines, s.Dim(table.Cut(layout.Header(), columns)))
	for i, l := range shown {
		line := table.Cut(layout.Line(cells[i]), columns)
		if l.Waiting > 0 {
			line = s.Yellow(line)
		}
		lines = append(lines, line)
	}
	if len(b.rows) == 0 {
		for _, hint := range b.hints {
			lines = append(lines, table.Cut(printable.Line(hint, maxTitle), columns))
		}
	}
	if left := len(b.rows) - len(shown); left > 0 {
		lines = append(lines, s.Dim(fmt.Sprintf("and %d more", left)))
	}
	return lines[:min(len(lines), rows)]
}
