// Package console writes what holdfast tells people, on standard error.
package console

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// TimeFormat is how people are shown a time. It has the zone: logs of several machines are read side by side.
const TimeFormat = "2006-01-02 15:04:05 MST"

// Console writes messages, one line each. Messages quote servers and other holders, so it removes passwords and
// escapes what a terminal would interpret.
type Console struct {
	w       io.Writer
	level   Level
	secrets []string

	mu sync.Mutex
}

// Level says which messages are written.
type Level int

// The levels.
const (
	Quiet   Level = iota - 1 // errors only
	Normal                   // and notes
	Verbose                  // and details
)

// New returns a console that writes messages of this level to w.
func New(w io.Writer, level Level) *Console { return &Console{w: w, level: level} }

// Verbose reports whether details are written.
func (c *Console) Verbose() bool { return c.level >= Verbose }

// Hide removes secrets from everything that is written from now on.
func (c *Console) Hide(secrets ...string) { c.secrets = append(c.secrets, secrets...) }

// Error writes an error.
func (c *Console) Error(err error) {
	c.write(err.Error())
}

// Exit writes what err, the error with which a program ends, has to tell, and returns the program's exit code.
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

// Notef writes a message that everybody should read.
func (c *Console) Notef(format string, args ...any) {
	if c.level >= Normal {
		c.write(fmt.Sprintf(format, args...))
	}
}

// Warnf writes a note about a danger.
func (c *Console) Warnf(format string, args ...any) { c.Notef("warning: "+format, args...) }

// Detailf writes a message for those who want to follow what happens.
func (c *Console) Detailf(format string, args ...any) {
	if c.level >= Verbose {
		c.write(fmt.Sprintf(format, args...))
	}
}

func (c *Console) write(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = strings.ReplaceAll(c.Redact(text), "\n", "; ") // in joined errors
	text = strings.ReplaceAll(text, "holdfast: ", "")     // with which errors of the library begin, and every message
	// An error cannot be reported: this is where errors are reported.
	_, _ = fmt.Fprintf(c.w, "holdfast: %s\n", printable.Line(text, maxMessage))
}

// maxMessage bounds a message, in bytes.
const maxMessage = 16 << 10

// credentials matches what stands between "://" and the last "@" of a word.
var credentials = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s"']*@`) })

// passwordParameters matches parameters of a URL that are passwords.
var passwordParameters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&\s"']+`) })

// Redact removes secrets from a text. Our own messages do not contain any; errors of other packages may.
func (c *Console) Redact(text string) string {
	text = credentials().ReplaceAllString(text, "://")
	text = passwordParameters().ReplaceAllString(text, "$1[redacted]")
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
