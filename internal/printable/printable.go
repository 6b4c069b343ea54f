// Package printable makes text that others wrote fit to be shown: on a terminal, which
// obeys what it is shown, and to people, who believe it.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line of at most limit bytes or a few more: what does not print
// is escaped as in Go's strings, and what is too long is cut.
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

// Word returns s as a part of a sentence: at most limit bytes of it, and in quotes if the
// reader could take it for more of the sentence.
func Word(s string, limit int) string {
	if s != "" && len(s) <= limit && plain(s, " \"'`\\()[]{}<>,;=") {
		return s
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strconv.Quote(s)
}

// plain reports whether all of s prints and has nothing of but.
func plain(s, but string) bool {
	return utf8.ValidString(s) && !strings.ContainsAny(s, but) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// escape returns r, which is encoded as raw, or how Go writes it if it does not print.
func escape(r rune, raw string) string {
	if r == utf8.RuneError && len(raw) == 1 || !unicode.IsPrint(r) {
		quoted := strconv.Quote(raw)
		return quoted[1 : len(quoted)-1]
	}
	return raw
}

// JSON returns a JSON text in which what does not print is escaped, so that it can be
// shown on a terminal. Line ends and other space between tokens stay.
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
