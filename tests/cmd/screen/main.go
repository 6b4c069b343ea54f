// Command screen records what a command shows on a terminal as an SVG that plays it: screen FILE CMD [ARG...]. "make pictures" records the
// demo with it.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: screen FILE CMD [ARG...]")
		os.Exit(64)
	}
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: window})
	if err != nil {
		fmt.Fprintln(os.Stderr, "screen:", err)
		os.Exit(1)
	}
	s := record(terminal)
	if err = cmd.Wait(); err == nil {
		err = os.WriteFile(os.Args[1], s.svg(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "screen:", err)
		os.Exit(1)
	}
}

// screen is a record of what was shown.
type screen struct {
	began time.Time // when the first line appeared
	lines []string
	times []time.Duration // when each line appeared, since began
}

// record records lines until there are no more. A terminal's last read is an error.
func record(from io.Reader) *screen {
	s := &screen{}
	for shown := bufio.NewScanner(from); shown.Scan(); {
		if s.lines == nil {
			s.began = time.Now()
		}
		s.lines = append(s.lines, strings.TrimRight(shown.Text(), "\r"))
		s.times = append(s.times, time.Since(s.began).Truncate(10*time.Millisecond))
	}
	return s
}

// styled matches a text with a style.
var styled = regexp.MustCompile(`\x1b\[([\d;]+)m(.*?)\x1b\[0m`)

// Sizes in the SVG of a screen, in pixels.
const (
	cell    = 8.4 // the width of a character
	columns = 80  // the minimum
	row     = 18
	padding = 16
	bar     = 36 // the height of the window's title
	window  = 30 // the number of visible rows
)

// restTime is the pause at the end of a recording before it repeats.
const restTime = 8 * time.Second

// svg returns an SVG that plays what the screen showed in a loop, without scripts. If the viewer prefers reduced motion, it shows the end.
//
// The lines move up together, as in a terminal that scrolls. A cover hides the lines that have not appeared yet, and moves down.
func (s *screen) svg() []byte {
	width, rows := columns, min(window, len(s.lines))
	for _, line := range s.lines {
		width = max(width, length(line))
	}
	width = int(float64(width)*cell + 1)
	cycle := (s.times[len(s.times)-1] + restTime).Seconds()
	scroll := func(lines int) string { return fmt.Sprintf("transform:translateY(%dpx)", -row*max(0, lines-rows)) }
	cover := func(lines int) string { return fmt.Sprintf("transform:translateY(%dpx)", lines*row) }
	animation := func(name string, state func(lines int) string) string {
		keyframes, before := "", ""
		for i, at := range s.times {
			if i+1 < len(s.times) && s.times[i+1] == at {
				continue // the next line appears at the same time
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
`, outerWidth, outerHeight, screenStyle, scroll(len(s.lines)), cover(len(s.lines)), animation("scroll", scroll), animation("cover", cover),
		outerWidth-1, outerHeight-1, outerWidth/2, padding, bar+padding, width, rows*row)
	for i, line := range s.lines {
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
	fmt.Fprintf(&b, "<rect id=\"cover\" class=\"ground\" width=\"%d\" height=\"%d\"/></g></svg></svg>\n", width, row*len(s.lines))
	return b.Bytes()
}

// length returns the number of visible characters of a line.
func length(line string) int { return utf8.RuneCountInString(styled.ReplaceAllString(line, "$2")) }

// screenStyle has a class for each ANSI code.
const screenStyle = `
text{font:14px ui-monospace,SFMono-Regular,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;white-space:pre;fill:#1f2328}
.window,.ground{fill:#fff}.window{stroke:#d1d9e0}circle{fill:#d1d9e0}
.s1{font-weight:600}.s2{fill:#59636e}.s31{fill:#cf222e}.s32{fill:#1a7f37}.s33{fill:#9a6700}.s36{fill:#0969da}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.window,.ground{fill:#0d1117}.window{stroke:#3d444d}circle{fill:#3d444d}
.s2{fill:#9198a1}.s31{fill:#f85149}.s32{fill:#3fb950}.s33{fill:#d29922}.s36{fill:#58a6ff}
}
`
