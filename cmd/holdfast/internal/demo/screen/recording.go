package screen

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Recording is what a screen showed, and when. A nil Recording records nothing.
type Recording struct {
	began   time.Time  // when the first line appeared
	lines   []string   // the lines that stay
	frames  [][]string // the picture, each time that it was recorded
	framed  time.Time  // when the last frame appeared
	frame   int        // the frame that is shown, counted from 1; 0 for none
	changes []change   // at most one per instant
}

// change is what a recording shows from an instant on: a number of lines, and a frame below them.
type change struct {
	at           time.Duration
	lines, frame int
}

// frameTime is the shortest time between two frames. A terminal shows more frames, which would make a large file.
const frameTime = 250 * time.Millisecond

func (r *Recording) addLine(text string) {
	if r == nil {
		return
	}
	if r.lines == nil {
		r.began = time.Now()
	}
	r.lines = append(r.lines, text)
	r.changed()
}

func (r *Recording) addFrame(s *Screen) {
	if r == nil || time.Since(r.framed) < frameTime {
		return
	}
	r.frames = append(r.frames, s.picture.Draw(s, plainColumns))
	r.framed, r.frame = time.Now(), len(r.frames)
	r.changed()
}

// finish turns the picture's rows into lines that stay.
func (r *Recording) finish(rows []string) {
	if r == nil {
		return
	}
	r.lines, r.frame = append(r.lines, rows...), 0
	r.changed()
}

func (r *Recording) changed() {
	at := time.Since(r.began).Truncate(10 * time.Millisecond)
	if n := len(r.changes); n > 0 && r.changes[n-1].at == at {
		r.changes = r.changes[:n-1]
	}
	r.changes = append(r.changes, change{at, len(r.lines), r.frame})
}

// Sizes in an SVG, in pixels.
const (
	cell    = 8.4 // the width of a character
	row     = 18
	padding = 16
	bar     = 36 // the height of the window's title
	window  = 30 // visible rows
)

// restTime is the pause at the end of a recording before it repeats.
const restTime = 8 * time.Second

// WriteSVG writes an SVG that plays the recording in a loop, without scripts. If the viewer prefers reduced motion, it shows the end.
//
// The lines move up together, as in a terminal that scrolls. A cover hides the lines that have not appeared yet, and moves down. The
// frames are side by side on the cover, which moves left to show the next one. So each line is in the SVG once, and each change is one
// keyframe.
func (r *Recording) WriteSVG(w io.Writer) error {
	columns, last := plainColumns, r.changes[len(r.changes)-1]
	for _, line := range r.lines {
		columns = max(columns, length(line))
	}
	width, rows := int(float64(columns)*cell+1), min(window, len(r.lines))
	scroll := func(c change) string {
		below := 0
		if c.frame > 0 {
			below = len(r.frames[c.frame-1])
		}
		return fmt.Sprintf("transform:translateY(%dpx)", -row*max(0, c.lines+below-rows))
	}
	cover := func(c change) string {
		return fmt.Sprintf("transform:translate(%dpx,%dpx)", -c.frame*width, c.lines*row)
	}
	cycle := last.at + restTime
	animation := func(name string, state func(change) string) string {
		var keyframes strings.Builder
		before := ""
		for _, c := range r.changes {
			if now := state(c); now != before {
				fmt.Fprintf(&keyframes, "%.2f%%{%s}", 100*c.at.Seconds()/cycle.Seconds(), now)
				before = now
			}
		}
		return fmt.Sprintf("#%s{animation:%[1]s %.2[2]fs step-end infinite}@keyframes %[1]s{%[3]s}\n", name, cycle.Seconds(), &keyframes)
	}

	var b bytes.Buffer
	outerWidth, outerHeight := width+2*padding, bar+rows*row+2*padding
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="title">
<title id="title">holdfast demo in a terminal</title>
<style>%[3]s#scroll{%[4]s}#cover{%[5]s}
@media (prefers-reduced-motion:no-preference){
%[6]s%[7]s}</style>
<rect class="window" x=".5" y=".5" width="%[8]d" height="%[9]d" rx="10"/>
<circle cx="22" cy="19" r="6"/><circle cx="42" cy="19" r="6"/><circle cx="62" cy="19" r="6"/><text class="s2" x="%[10]d" y="24" text-anchor="middle">holdfast demo</text>
<svg x="%[11]d" y="%[12]d" width="%[13]d" height="%[14]d"><g id="scroll">
`, outerWidth, outerHeight, style, scroll(last), cover(last), animation("scroll", scroll), animation("cover", cover),
		outerWidth-1, outerHeight-1, outerWidth/2, padding, bar+padding, width, rows*row)
	writeRows(&b, 0, r.lines)
	fmt.Fprintf(&b, "<g id=\"cover\"><rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", width*(len(r.frames)+1), row*len(r.lines))
	for i, f := range r.frames {
		writeRows(&b, width*(i+1), f)
	}
	b.WriteString("</g></g></svg></svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// writeRows writes lines one below the other.
func writeRows(b *bytes.Buffer, x int, lines []string) {
	for i, line := range lines {
		if line == "" {
			continue
		}
		text := styled.ReplaceAllStringFunc(html.EscapeString(line), func(s string) string {
			part := styled.FindStringSubmatch(s)
			return fmt.Sprintf(`<tspan class="s%s">%s</tspan>`, strings.ReplaceAll(part[1], ";", " s"), part[2])
		})
		// textLength keeps the columns of a table aligned, whatever the font.
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" textLength=\"%.1f\">%s</text>\n", x, i*row+13, cell*float64(length(line)), text)
	}
}

// length returns the number of visible characters of a line.
func length(line string) int { return utf8.RuneCountInString(styled.ReplaceAllString(line, "$2")) }

// style has a class for each ANSI code.
const style = `
text{font:14px ui-monospace,SFMono-Regular,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;white-space:pre;fill:#1f2328}
.window,.ground{fill:#fff}.window{stroke:#d1d9e0}circle{fill:#d1d9e0}
.s1{font-weight:600}.s2{fill:#59636e}.s31{fill:#cf222e}.s32{fill:#1a7f37}.s33{fill:#9a6700}.s36{fill:#0969da}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.window,.ground{fill:#0d1117}.window{stroke:#3d444d}circle{fill:#3d444d}
.s2{fill:#9198a1}.s31{fill:#f85149}.s32{fill:#3fb950}.s33{fill:#d29922}.s36{fill:#58a6ff}
}
`
