package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

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
	text = parameters.ReplaceAllString(text, "$1[redacted]")
	for _, s := range v.secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[redacted]")
		} else { // which is a part of many words
			text = replaceWord(text, s, "[redacted]")
		}
	}
	return text
}

// parameters are those of a URL that are passwords.
var parameters = regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&\s"']+`)

// replaceWord replaces a word, but not where it is a part of another.
func replaceWord(text, word, by string) string {
	var b strings.Builder
	for begin := 0; ; {
		i := strings.Index(text[begin:], word)
		if i < 0 {
			b.WriteString(text[begin:])
			return b.String()
		}
		i += begin
		end := i + len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[begin:i])
		if inWord(before) || inWord(after) {
			b.WriteString(word)
		} else {
			b.WriteString(by)
		}
		begin = end
	}
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
