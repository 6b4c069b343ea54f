package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
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
			if s := screenOf(stdout); s != nil && !o.json {
				return o.fill(ctx, in, s)
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
func (o *watchFlags) fill(ctx context.Context, in *inspect.Inspector, s *screen) error {
	b := &board{o: o}
	if err := b.look(ctx, in); err != nil {
		return err
	}
	hints := make(chan string, mostPrefixes)
	go o.elsewhere(ctx, o.name(), func(format string, args ...any) { hints <- fmt.Sprintf(format, args...) })
	s.begin()
	defer s.end()
	for {
		s.draw(b.draw)
		pause := time.NewTimer(max(time.Second-b.took, b.took))
		select {
		case <-pause.C:
			b.err = b.look(ctx, in) // after an error, the board shows what it last saw
		case hint := <-hints:
			b.hints = append(b.hints, hint)
		case <-s.resized:
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

func (b *board) draw(s *screen, columns, rows int) []string {
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
		head = cut(head, room)
		head += strings.Repeat(" ", room-textWidth(head)+1) + at
	}
	lines := []string{s.Bold(cut(head, columns))}
	if b.err != nil {
		text := strings.TrimPrefix(b.o.console.Redact(b.err.Error()), "holdfast: ")
		lines = append(lines, s.Red(cut(printable.Line("as of "+at+": "+text, maxTitle), columns)))
	}
	shown := b.rows[:min(len(b.rows), max(rows-len(lines)-2, 0))]
	var cells [][]string
	for _, l := range shown {
		cells = append(cells, lockRow(l))
	}
	layout := fit(lockColumns, cells, columns)
	lines = append(lines, s.Dim(cut(layout.header(), columns)))
	for i, l := range shown {
		line := cut(layout.line(cells[i]), columns)
		if l.Waiting > 0 {
			line = s.Yellow(line)
		}
		lines = append(lines, line)
	}
	if len(b.rows) == 0 {
		for _, hint := range b.hints {
			lines = append(lines, cut(printable.Line(hint, maxTitle), columns))
		}
	}
	if left := len(b.rows) - len(shown); left > 0 {
		lines = append(lines, s.Dim(fmt.Sprintf("and %d more", left)))
	}
	return lines[:min(len(lines), rows)]
}

// screen is a terminal that is drawn on as a whole. What it showed before comes back at the end.
type screen struct {
	console.Styles
	resized chan os.Signal // receives a value when the terminal's size has changed
	f       *os.File
}

// Escape sequences that take the terminal and give it back.
const (
	takeScreen  = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	backToShell = "\x1b[?25h\x1b[?1049l"
)

// screenOf returns the screen of a terminal. It returns nil if w is no terminal, or cannot be drawn on.
func screenOf(w io.Writer) *screen {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if _, _, ok := terminal.Size(f); !ok {
		return nil
	}
	return &screen{f: f, Styles: os.Getenv("NO_COLOR") == "", resized: make(chan os.Signal, 1)}
}

// begin takes the terminal. From then on ^Z does nothing: if holdfast stopped, the shell would be left with the other screen.
func (s *screen) begin() {
	signal.Ignore(terminal.Suspend)
	signal.Notify(s.resized, terminal.Resize)
	s.write(takeScreen)
}

// end gives the terminal back.
func (s *screen) end() {
	s.write(backToShell)
	signal.Stop(s.resized)
}

// draw replaces everything by the lines that draw returns. They must fit the size of the terminal.
func (s *screen) draw(draw func(s *screen, columns, rows int) []string) {
	columns, rows, _ := terminal.Size(s.f)
	if columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	// Each line is replaced in place, so that nothing flickers. It is erased first: after a line that fills the terminal, the cursor
	// is still on that line's last character. A line feed after the last row would scroll.
	lines := draw(s, columns, rows)
	text := "\x1b[H\x1b[K" + strings.Join(lines, "\r\n\x1b[K")
	if len(lines) < rows {
		text += "\r\n\x1b[J"
	}
	s.write(text)
}

// write writes everything at once. It ignores errors: if the terminal hangs up, a signal ends the program.
func (s *screen) write(text string) { _, _ = io.WriteString(s.f, text) }
