package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// voice writes messages for people. No password passes it, and nothing that a terminal obeys: what servers and
// holders say is in many of them.
type voice struct {
	w              io.Writer
	quiet, verbose bool
	secrets        []string

	mu sync.Mutex
}

// fail says an error, however quiet.
func (v *voice) fail(err error) {
	v.write(strings.TrimPrefix(err.Error(), "holdfast: "))
}

// note says what people should know, unless they want quiet.
func (v *voice) note(format string, args ...any) {
	if !v.quiet {
		v.write(fmt.Sprintf(format, args...))
	}
}

// tell says what those who asked for more want to know.
func (v *voice) tell(format string, args ...any) {
	if v.verbose {
		v.write(fmt.Sprintf(format, args...))
	}
}

func (v *voice) write(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text = strings.ReplaceAll(v.redact(text), "\n", "; ") // of errors that were joined
	// There is no other place to complain that stderr does not work.
	_, _ = fmt.Fprintf(v.w, "holdfast: %s\n", printable.Line(text, maxSaid))
}

// maxSaid bounds a message, in bytes.
const maxSaid = 16 << 10

// credentials are what stands between "://" and the last "@" of a word.
var credentials = regexp.MustCompile(`://[^\s"']*@`)

// redact takes out what must not be shown. Messages are made without it; this is
// for errors that other packages made.
func (v *voice) redact(text string) string {
	text = credentials.ReplaceAllString(text, "://")
	for _, s := range v.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
