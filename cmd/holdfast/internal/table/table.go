// Package table writes tables that fit the terminal.
package table

import (
	"strings"
	"unicode"
)

// Column is a column of a table.
type Column struct {
	Title string
	Right bool // aligned to the right
	// Least is the width to which the column may be cut if the table is too wide; 0 if it is never cut.
	Least int
	// Expendable columns are left out if the table is still too wide, the last one first.
	Expendable bool
}

const gap = 2

// Layout says how wide each column of a table is.
type Layout struct {
	columns []Column
	widths  []int // -1 for a column that is left out
}

// Fit returns the layout of a table with these rows for a terminal of this width; 0 means any width.
func Fit(columns []Column, rows [][]string, terminal int) *Layout {
	l := &Layout{columns: columns}
	for i, c := range columns {
		width := Width(c.Title)
		for _, row := range rows {
			width = max(width, Width(row[i]))
		}
		l.widths = append(l.widths, width)
	}
	if terminal <= 0 {
		return l
	}
	for i := len(columns) - 1; i >= 0 && l.width(true) > terminal; i-- {
		if columns[i].Expendable {
			l.widths[i] = -1
		}
	}
	for l.width(false) > terminal {
		widest := -1
		for i, c := range columns {
			if c.Least > 0 && l.widths[i] > c.Least && (widest < 0 || l.widths[i] > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		l.widths[widest]--
	}
	return l
}

// width returns the width of the table or, if cut is set, what it is when its columns are cut as far as possible.
func (l *Layout) width(cut bool) int {
	sum := -gap
	for i, w := range l.widths {
		if least := l.columns[i].Least; cut && least > 0 {
			w = min(w, least)
		}
		if w >= 0 {
			sum += w + gap
		}
	}
	return sum
}

// Header returns the line with the titles.
func (l *Layout) Header() string {
	var titles []string
	for _, c := range l.columns {
		titles = append(titles, c.Title)
	}
	return l.Line(titles)
}

// Line returns a row as a line, without spaces at its end.
func (l *Layout) Line(row []string) string {
	var b strings.Builder
	for i, cell := range row {
		width := l.widths[i]
		if width < 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if l.columns[i].Least > 0 {
			cell = Cut(cell, width)
		}
		padding := strings.Repeat(" ", max(width-Width(cell), 0))
		if l.columns[i].Right {
			b.WriteString(padding + cell)
		} else {
			b.WriteString(cell + padding)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Cut shortens a text to a width. If it cuts something off, it ends the text with an ellipsis, within that width.
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken+runeWidth(r) > width-1 {
			return text[:i] + "…"
		}
		taken += runeWidth(r)
	}
	return text
}

// Width returns how many columns of a terminal a text takes. The text must have no control characters.
func Width(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		0x3000 <= r && r <= 0x303f, 0xff00 <= r && r <= 0xff60, 0x1f300 <= r && r <= 0x1faff: // and wide punctuation, and emoji
		return 2
	}
	return 1
}
