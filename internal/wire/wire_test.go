package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// No input makes a parser panic, and whatever is accepted is complete and in range.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"hf2:token:42:1700000000000:0:{\"o\":\"x\"}+", "hf2:::::", "granted 1700000000000000 15000 42 1",
		"queued 1 -1 2 3 4 foreign", "error ERR x", "hf2 grant tok 17 1500 42 holdfast:{a}", "hf2 standby tok 17 99", "\xff \x00 ",
		"taken 1700000000000000 1700000000000001 2 5", "freed 1 128", "kept 1700000000000000 3 2", "freed -9223372036854775808",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := ParseValue(s); ok && !strings.HasPrefix(s, "hf2:"+v.Token+":") {
			t.Errorf("ParseValue(%q) has the token %q", s, v.Token)
		} else if text, err := json.Marshal(v.Info); ok && (err != nil || !utf8.ValidString(v.Info.Owner)) {
			t.Errorf("ParseValue(%q) has the info %s, %v", s, text, err)
		} else if year := time.UnixMilli(v.Granted).Year(); ok && (year < 1969 || year > 9999) {
			t.Errorf("ParseValue(%q) was granted in the year %d", s, year)
		}
		if id := GrantOf(s); id != "" && (!IsGrant(id) || !strings.HasPrefix(s, id)) {
			t.Errorf("GrantOf(%q) = %q", s, id)
		}
		if r, err := ParseReply(s); err == nil {
			if r.Now <= 0 || r.Now > MaxTime {
				t.Errorf("ParseReply(%q) has the time %d", s, r.Now)
			}
			for text := r.Rest; ; {
				rest, err := ints(text, new(int64))
				if err != nil {
					break
				}
				if len(rest) >= len(text) {
					t.Fatalf("ints does not consume fields of %q", s)
				}
				text = rest
			}
		}
		if n, err := ParseNotice(s); err == nil && (!IsGrant(n.Grant) || n.Lock == "") {
			t.Errorf("ParseNotice(%q) = %+v", s, n)
		}
		m, err := ParseMessage(s)
		if err == nil && (m.Token == "" || (m.Grant == nil) == (m.Standby == nil)) {
			t.Errorf("ParseMessage(%q) = %+v", s, m)
		}
		if err == nil && m.Grant != nil && (m.Grant.Claim <= 0 || m.Grant.Fence == 0 || m.Grant.Lock == "") {
			t.Errorf("ParseMessage(%q) has the grant %+v", s, *m.Grant)
		}
	})
}
