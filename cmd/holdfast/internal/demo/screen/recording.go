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

// Recording is what a screen showed, and when.
type Recording struct {
	began time.Time // when the first line appeared
	lines []string
	times []time.Duration // since then, of each line
}

func (r *Recording) add(text string) {
	if r.lines == nil {
		r.began = time.Now()
	}
	r.lines, r.times = append(r.lines, text), append(r.times, time.Since(r.began).Truncate(10*time.Millisecond))
}

// Sizes in an SVG, in pixels.
const (
	cell    = 8.4 // the width of a character
	columns = 80  // at least
	row     = 18
	padding = 16
	bar     = 36 // the height of the window's title
	window  = 30 // visible rows
)

// restTime is the pause at the end of a recording before it repeats.
const restTime = 8 * time.Second

// WriteSVG writes an SVG that plays the recording in a loop, without scripts. If the viewer prefers reduced motion, it shows the end.
//
// The lines move up together, as in a terminal that scrolls. A cover hides the lines that have not appeared yet, and moves down.
func (r *Recording) WriteSVG(w io.Writer) error {
	width, rows := columns, min(window, len(r.lines))
	for _, line := range r.lines {
		width = max(width, length(line))
	}
	width = int(float64(width)*cell + 1)
	cycle := (r.times[len(r.times)-1] + restTime).Seconds()
	scroll := func(lines int) string { return fmt.Sprintf("transform:translateY(%dpx)", -row*max(0, lines-rows)) }
	cover := func(lines int) string { return fmt.Sprintf("transform:translateY(%dpx)", lines*row) }
	animation := func(name string, state func(lines int) string) string {
		keyframes, before := "", ""
		for i, at := range r.times {
			if i+1 < len(r.times) && r.times[i+1] == at {
				continue // lines that appear together
			}
			if now := state(i + 1); now != before {
				keyframes += fmt.Sprintf("%.2f%%{%s}", 100*at.Seconds()/cycle, now)
				before = now
			}
		}
		return fmt.Sprintf("#%s{animation:%[1]s %.2[2]fs step-end infinite}@keyframes %[1]s{%[3]s}\n", name, cycle, keyframes)
	}

	var b bytes.Buffer
	outerWidth, outerHeight := width+2*padding, bar+rows*row+2*padding
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d"
 role="img" aria-labelledby="title">
<title id="title">holdfast demo in a terminal</title>
<style>%[3]s#scroll{%[4]s}#cover{%[5]s}
@media (prefers-reduced-motion:no-preference){
%[6]s%[7]s}</style>
<rect class="window" x=".5" y=".5" width="%[8]d" height="%[9]d" rx="10"/>
<circle cx="22" cy="19" r="6"/><circle cx="42" cy="19" r="6"/><circle cx="62" cy="19" r="6"/>`+
		`<text class="s2" x="%[10]d" y="24" text-anchor="middle">holdfast demo</text>
<svg x="%[11]d" y="%[12]d" width="%[13]d" height="%[14]d"><g id="scroll">
`, outerWidth, outerHeight, style, scroll(len(r.lines)), cover(len(r.lines)), animation("scroll", scroll), animation("cover", cover),
		outerWidth-1, outerHeight-1, outerWidth/2, padding, bar+padding, width, rows*row)
	for i, line := range r.lines {
		if line == "" {
			continue
		}
		text := styled.ReplaceAllStringFunc(html.EscapeString(line), func(s string) string {
			part := styled.FindStringSubmatch(s)
			return fmt.Sprintf(`<tspan class="s%s">%s</tspan>`, strings.ReplaceAll(part[1], ";", " s"), part[2])
		})
		// textLength keeps the columns of a table aligned, whatever the font.
		fmt.Fprintf(&b, "<text y=\"%d\" textLength=\"%.1f\">%s</text>\n", i*row+13, cell*float64(length(line)), text)
	}
	fmt.Fprintf(&b, "<rect id=\"cover\" class=\"ground\" width=\"%d\" height=\"%d\"/></g></svg></svg>\n", width, row*len(r.lines))
	_, err := w.Write(b.Bytes())
	return err
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
