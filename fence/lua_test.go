package fence

import (
	"regexp"
	"strings"
	"testing"
)

func TestHeadersDocumentKeysArgumentsAndReplies(t *testing.T) {
	entries, err := files.ReadDir("lua")
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	for _, e := range entries {
		source := text(e.Name())
		if !strings.HasPrefix(source, "-- "+e.Name()+": ") {
			t.Errorf("%s begins with %.40q", e.Name(), source)
		}
		header, code, _ := strings.Cut(source, "\n\n")
		for _, m := range regexp.MustCompile(`(?:return|error_reply\() ?'([A-Za-z]+)`).FindAllStringSubmatch(code, -1) {
			if !strings.Contains(header, "'"+m[1]) {
				t.Errorf("%s returns %q, which its header does not document", e.Name(), m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`).FindAllStringSubmatch(code, -1) {
			if !regexp.MustCompile(m[1] + `\s.*\[` + m[2] + `\]`).MatchString(header) {
				t.Errorf("%s uses %s, which its header does not document", e.Name(), m[0])
			}
		}
	}
}
