package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// three is a picture of three lines.
type three int

func (three) Height() int { return 3 }

func (n *three) Draw(*Screen, int) []string {
	*n++
	return []string{"", fmt.Sprint("drawn ", *n), "caption"}
}

// A picture that is redrawn first removes itself from the terminal, and only itself.
func TestThePictureIsRedrawn(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{out: &out, columns: 60, rows: 20}
	s.Show(new(three))
	s.Line("first")
	if got, want := out.String(), "first\n\ndrawn 1\ncaption\n"; got != want {
		t.Errorf("it writes %q, want %q", got, want)
	}
	for _, draw := range []func(){s.Redraw, func() { s.Line("something") }, s.Finish} {
		out.Reset()
		draw()
		if got := out.String(); !strings.HasPrefix(got, "\x1b[3A\r\x1b[J") || strings.Count(got, "\x1b") != 2 {
			t.Errorf("it writes %q", got)
		}
	}
	out.Reset()
	s.Line("after")
	if out.String() != "after\n" {
		t.Errorf("after the picture it writes %q", &out)
	}
}

// Without a terminal, the picture is drawn once, at the end.
func TestThePictureWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	s := New(&out)
	s.Show(new(three))
	s.Redraw()
	s.Line("something")
	if strings.Contains(out.String(), "drawn") {
		t.Errorf("drawn too early: %q", &out)
	}
	s.Finish()
	if out.String() != "something\n\ndrawn 1\ncaption\n" {
		t.Errorf("it writes %q", &out)
	}
}
