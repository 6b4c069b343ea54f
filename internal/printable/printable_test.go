package printable

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCharactersThatDoNotPrintAreEscaped(t *testing.T) {
	for s, want := range map[string]string{
		"":                       "",
		"host:1":                 "host:1",
		"WRONGTYPE it's \"so\"":  "WRONGTYPE it's \"so\"",
		"日本":                     "日本",
		"a\nb\r\tc":              `a\nb\r\tc`,
		"\x1b[31mred\x1b[0m":     `\x1b[31mred\x1b[0m`,
		"\u009b31m":              `\u009b31m`,
		"\u202Eevil\u2066":       `\u202eevil\u2066`,
		"\u200b\u00a0\ufeff\x00": `\u200b\u00a0\ufeff\x00`,
		"\xff\xfe ok":            `\xff\xfe ok`,
		"\U000e0041":             `\U000e0041`,
	} {
		if got := Line(s, 100); got != want {
			t.Errorf("Line(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestAWordCannotPassForPartOfTheSentence(t *testing.T) {
	for s, want := range map[string]string{
		"":                      `""`,
		"host:1:abc":            "host:1:abc",
		"a b":                   `"a b"`,
		"x (pid 1 on h)":        `"x (pid 1 on h)"`,
		`"`:                     `"\""`,
		"\x1b":                  `"\x1b"`,
		"alice, since 2001":     `"alice, since 2001"`,
		`DOMAIN\x`:              `"DOMAIN\\x"`,
		strings.Repeat("é", 50): `"` + strings.Repeat("é", 10) + `…"`,
	} {
		if got := Word(s, 20); got != want {
			t.Errorf("Word(%q) = %q, want %q", s, got, want)
		}
	}
}

// All results print, and exceed the limit by no more than escapes account for.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[2J", "\u202Ea", "\xff", "\U000e0041", strings.Repeat("\x00", 99), "é\u009b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const limit = 64
		for _, got := range []string{Line(s, limit), Word(s, limit)} {
			if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(got) {
				t.Errorf("%q is shown as %q, which does not print", s, got)
			}
			if len(got) > 4*limit+8 {
				t.Errorf("%d bytes are shown in %d", len(s), len(got))
			}
		}
		plain, err := json.Marshal(map[string]string{"k": s})
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(plain)
		if strings.ContainsFunc(string(shown), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is shown as %s, which does not print", s, shown)
		}
		var a, b map[string]string
		if json.Unmarshal(plain, &a) != nil || json.Unmarshal(shown, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s and %s have different values", shown, plain)
		}
	})
}
