// Package printable makes untrusted text safe to show: control characters cannot reach a terminal, and the text
// cannot pass for part of the message around it.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line, cut after limit bytes or a few more. Characters that do not print are escaped as in Go
// string literals.
func Line(s string, limit int) string {
	if len(s) <= limit && plain(s, "") {
		return s
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		r, n := utf8.DecodeRuneInString(rest)
		b.WriteString(escape(r, rest[:n]))
		rest = rest[n:]
	}
	return b.String()
}

// Word returns s for use within a sentence: at most limit bytes of it, and quoted if a reader could mistake it for
// part of the sentence.
func Word(s string, limit int) string {
	if s != "" && len(s) <= limit && plain(s, " \"'`\\()[]{}<>,;=") {
		return s
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strconv.Quote(s)
}

// plain reports whether s prints and contains none of the excluded characters.
func plain(s, excluded string) bool {
	return utf8.ValidString(s) && !strings.ContainsAny(s, excluded) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// escape returns raw, the encoding of r, or a Go escape sequence for it if r does not print.
func escape(r rune, raw string) string {
	if r == utf8.RuneError && len(raw) == 1 || !unicode.IsPrint(r) {
		quoted := strconv.Quote(raw)
		return quoted[1 : len(quoted)-1]
	}
	return raw
}

// JSON returns the JSON text with every character that does not print escaped. Newlines stay.
func JSON(text []byte) []byte {
	var b []byte
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b = append(b, text[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b
}
