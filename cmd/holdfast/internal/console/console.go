// Package console writes what holdfast tells people, on standard error.
package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Console writes messages, one line each. Messages quote servers and other holders, so it removes passwords and
// escapes what a terminal would interpret.
type Console struct {
	w       io.Writer
	level   Level
	secrets []string

	mu sync.Mutex // held during a write
}

// Level says which messages are written.
type Level int

const (
	Quiet   Level = iota - 1 // errors only
	Normal                   // and notes
	Verbose                  // and details
)

// New returns a console that writes messages of this level to w.
func New(w io.Writer, level Level) *Console { return &Console{w: w, level: level} }

// Level returns the level of the messages that are written.
func (c *Console) Level() Level { return c.level }

// Hide removes secrets from all later messages.
func (c *Console) Hide(secrets ...string) { c.secrets = append(c.secrets, secrets...) }

// Error writes an error.
func (c *Console) Error(err error) { c.write(err.Error()) }

// Exit writes the error that ends the program, unless the user has been told, and returns the program's exit code.
func (c *Console) Exit(err error) int {
	if err == nil {
		return 0
	}
	exit := exitcode.Of(err)
	if exit.Err != nil {
		c.Error(exit.Err)
	}
	return exit.Code
}

// Notef writes a message that every user should read.
func (c *Console) Notef(format string, args ...any) {
	if c.level >= Normal {
		c.write(fmt.Sprintf(format, args...))
	}
}

// Warnf writes a note about a danger.
func (c *Console) Warnf(format string, args ...any) { c.Notef("warning: "+format, args...) }

// Detailf writes a message for users who follow what happens to the lock.
func (c *Console) Detailf(format string, args ...any) {
	if c.level >= Verbose {
		c.write(fmt.Sprintf(format, args...))
	}
}

func (c *Console) write(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = strings.ReplaceAll(c.Redact(text), "\n", "; ") // joined errors contain line feeds
	// The library's errors begin with "holdfast: ", as every message does. Elsewhere it may be the prefix of keys in a command.
	text = strings.TrimPrefix(strings.NewReplacer(": holdfast: ", ": ", "; holdfast: ", "; ").Replace(text), "holdfast: ")
	// An error cannot be reported: this is where errors are reported.
	_, _ = fmt.Fprintf(c.w, "holdfast: %s\n", printable.Line(text, maxMessage))
}

// maxMessage bounds a message, in bytes.
const maxMessage = 16 << 10

// credentials matches what stands between "://" and the last "@" of a word.
var credentials = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s"']*@`) })

// passwordParameters matches parameters of a URL that are passwords.
var passwordParameters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&\s"']+`) })

// Redact removes secrets from a text. Holdfast's own messages contain none; errors of other packages may.
func (c *Console) Redact(text string) string {
	text = credentials().ReplaceAllString(text, "://")
	text = passwordParameters().ReplaceAllString(text, "$1[redacted]")
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}

// Logger returns a logger whose warnings and errors become notes. It drops those about lost leases and outages: the
// command reports these itself, and says what it does about them.
func (c *Console) Logger() *slog.Logger { return slog.New(logHandler{c}) }

// logHandler handles the library's records, which have no groups.
type logHandler struct{ c *Console }

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.c.level >= Normal
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "holdfast: lease lost" || r.Message == "holdfast: server does not answer" {
		return nil
	}
	parts := []string{strings.TrimPrefix(r.Message, "holdfast: ")}
	r.Attrs(func(a slog.Attr) bool {
		parts = append(parts, a.Key+": "+a.Value.String())
		return true
	})
	h.c.Warnf("%s", strings.Join(parts, "; "))
	return nil
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h logHandler) WithGroup(string) slog.Handler { return h }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && terminal.Is(f)
}

// HasStyles reports whether a stream is a terminal that shows bold type and colors, and whose user wants them.
func HasStyles(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Styles says whether texts get styles.
type Styles bool

// Text returns a text in the style of an ANSI code, if texts get styles.
func (s Styles) Text(code, text string) string {
	if !s {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold, Dim, Red, Green and Yellow return a text in that style, if texts get styles.
func (s Styles) Bold(text string) string   { return s.Text("1", text) }
func (s Styles) Dim(text string) string    { return s.Text("2", text) }
func (s Styles) Red(text string) string    { return s.Text("1;31", text) }
func (s Styles) Green(text string) string  { return s.Text("1;32", text) }
func (s Styles) Yellow(text string) string { return s.Text("1;33", text) }

// TimeFormat is how people are shown a time. It includes the zone, because logs of several machines are read side by side.
const TimeFormat = "2006-01-02 15:04:05 MST"

// Duration returns a duration with about three digits.
func Duration(d time.Duration) string {
	unit := time.Microsecond
	for 1000*unit <= d.Abs() {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Count returns a number of things, such as "1 lock" or "2 locks".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
