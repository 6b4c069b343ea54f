package screen

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// played is the parsed SVG of a recording.
type played struct {
	text   string
	lines  []string // that stay
	frames []string // the lines of frames
	places []string // the horizontal positions of these lines
}

// play parses the SVG of a recording. It fails the test if the SVG is malformed, has scripts, or needs other files.
func play(t *testing.T, r *Recording) *played {
	t.Helper()
	var out bytes.Buffer
	if err := r.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	p := &played{text: out.String()}
	if strings.Contains(p.text, "url(") || strings.Contains(p.text, "@import") {
		t.Error("it needs other files")
	}
	seen := map[string]bool{} // the elements so far, by id
	line, x := "", ""
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, p.text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if !slices.Contains([]string{"svg", "title", "style", "rect", "circle", "g", "text", "tspan"}, token.Name.Local) {
				t.Errorf("there is an element %s", token.Name.Local)
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("%s has %s=%q", token.Name.Local, a.Name.Local, a.Value)
				}
				switch a.Name.Local {
				case "id":
					seen[a.Value] = true // no end tag resets this: everything after the cover is on it
				case "x":
					x = a.Value
				}
			}
			if token.Name.Local == "text" {
				line = ""
			}
		case xml.CharData:
			line += string(token)
		case xml.EndElement:
			switch {
			case token.Name.Local != "text" || !seen["scroll"]:
			case seen["cover"]:
				p.frames, p.places = append(p.frames, line), append(p.places, x)
			default:
				p.lines = append(p.lines, line)
			}
		}
	}
}

// times returns the percentages of an animation's keyframes, and the last keyframe.
func (p *played) times(t *testing.T, name string) (times []float64, last string) {
	t.Helper()
	_, keyframes, found := strings.Cut(p.text, "@keyframes "+name+"{")
	keyframes, _, _ = strings.Cut(keyframes, "\n")
	for _, k := range regexp.MustCompile(`([\d.]+)%\{(.*?)\}`).FindAllStringSubmatch(keyframes, -1) {
		at, err := strconv.ParseFloat(k[1], 64)
		if err != nil {
			t.Error(err)
		}
		times, last = append(times, at), k[2]
	}
	if !found || len(times) == 0 || times[0] != 0 || times[len(times)-1] >= 100 {
		t.Errorf("%s moves at %v", name, times)
	}
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			t.Errorf("%s moves at %v", name, times)
		}
	}
	return times, last
}

// A recording has each line once, from the time at which it appeared, and the picture as it changed.
func TestRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := New(&out)
		r := s.Record()
		s.Line(s.Bold("first") + ` & <"last">`)
		time.Sleep(500 * time.Millisecond)
		s.Line("")
		s.Line("   " + s.Red("second") + ", at the same time")
		s.Show(new(three))
		for range 20 { // 2 s
			time.Sleep(100 * time.Millisecond)
			s.Redraw()
		}
		s.Line("beside the picture")
		time.Sleep(500 * time.Millisecond)
		s.Finish()
		for n := range window {
			s.Line(fmt.Sprint("end ", n))
		}

		p := play(t, r)
		var shown []string
		for line := range strings.Lines(out.String()) {
			if line != "\n" {
				shown = append(shown, strings.TrimSuffix(line, "\n"))
			}
		}
		if !slices.Equal(p.lines, shown) {
			t.Errorf("it has the lines\n%q\nnot\n%q", p.lines, shown)
		}
		if want := []string{"drawn 1", "caption", "drawn 2", "caption"}; !slices.Equal(p.frames[:4], want) || len(p.frames) != 2*7 {
			t.Errorf("its frames are %q", p.frames)
		}
		var moves []string // of the cover, to the left
		for _, move := range regexp.MustCompile(`translate\(-(\d+)px`).FindAllStringSubmatch(p.text, -1) {
			moves = append(moves, move[1])
		}
		if frames := slices.Compact(p.places); len(frames) != 7 || !slices.Equal(slices.Compact(moves), frames) {
			t.Errorf("the frames are at %q, and the cover moves to %q", frames, moves)
		}
		// It lasts 3 s, and rests for 8 s: the lines are at 0 s, 0.5 s, 2.5 s and 3 s; the frames every 300 ms from 0.6 s on.
		var want []string
		for _, at := range []float64{0, 0.5, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.5, 3} {
			want = append(want, fmt.Sprintf("%.2f", 100*at/11))
		}
		times, last := p.times(t, "cover")
		var got []string
		for _, at := range times {
			got = append(got, fmt.Sprintf("%.2f", at))
		}
		if !slices.Equal(got, want) || last != fmt.Sprintf("transform:translate(0px,%dpx)", row*len(r.lines)) {
			t.Errorf("lines and frames appear at %q, not %q; in the end there is %s", got, want, last)
		}
	})
}

// A frame below a full window moves the lines up.
func TestAFrameScrolls(t *testing.T) {
	s := New(io.Discard)
	r := s.Record()
	for n := range window {
		s.Line(fmt.Sprint(n))
	}
	s.Show(new(three))
	s.Redraw()
	if _, last := play(t, r).times(t, "scroll"); last != fmt.Sprintf("transform:translateY(%dpx)", -3*row) { // the frame has three rows
		t.Errorf("it scrolls to %s", last)
	}
}

// Without animations, the SVG shows the end.
func TestRecordingStandsStill(t *testing.T) {
	r := new(Recording)
	for n := range window + 5 {
		r.addLine(fmt.Sprint(n))
	}
	p := play(t, r)
	still, moving, found := strings.Cut(p.text, "@media (prefers-reduced-motion:no-preference){")
	if !found || strings.Contains(still, "animation") || strings.Count(moving, "animation:") != 2 {
		t.Error("an animation is not guarded by the media query")
	}
	for _, name := range []string{"scroll", "cover"} {
		if _, last := p.times(t, name); !strings.Contains(still, "#"+name+"{"+last+"}") {
			t.Errorf("%s does not rest at %s", name, last)
		}
	}
	if !strings.Contains(still, fmt.Sprintf("#scroll{transform:translateY(%dpx)}", -5*row)) || !strings.Contains(still, "prefers-color-scheme:dark") {
		t.Errorf("without animations it looks different: %s", still)
	}
}
