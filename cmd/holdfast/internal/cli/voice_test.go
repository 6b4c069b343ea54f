package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
)

// Whatever is said, by whomever it was written, a terminal is shown one line of text.
func TestWhatIsSaidIsEscaped(t *testing.T) {
	const bad = "\x1b[2J\x1b]0;owned\a\u202e\xff\r\nholdfast: released"
	for what, say := range map[string]func(v *voice){
		"an error":     func(v *voice) { v.fail(errors.New(bad)) },
		"a note":       func(v *voice) { v.note("%s", bad) },
		"a detail":     func(v *voice) { v.tell("%s", bad) },
		"a log's":      func(v *voice) { v.logger().Warn("evicts", "seen", bad) },
		"what is long": func(v *voice) { v.note("%s", strings.Repeat("x", 1<<20)) },
	} {
		var said bytes.Buffer
		say(&voice{w: &said, verbose: true})
		line, ended := strings.CutSuffix(said.String(), "\n")
		if !ended || !strings.HasPrefix(line, "holdfast: ") || len(line) > 20_000 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %.300q", what, said.String())
		}
	}
}
