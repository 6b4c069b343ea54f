package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history/historytest"
)

// drawn is a picture, taken apart.
type drawn struct {
	text     string
	elements map[string]int    // how many there are, by name and class
	titles   []string          // of what the workers hold
	words    []string          // all texts
	ids      map[string]string // the class of each element with an id
}

// draw draws a history, and requires that the picture is well-formed and has no scripts and nothing from elsewhere.
func draw(t *testing.T, h *history.History) *drawn {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, h, historytest.TTL); err != nil {
		t.Fatal(err)
	}
	d := &drawn{text: out.String(), elements: map[string]int{}, ids: map[string]string{}}
	var path []string
	for r := xml.NewDecoder(&out); ; {
		token, err := r.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, d.text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name, class := token.Name.Local, ""
			if !slices.Contains([]string{"svg", "title", "desc", "style", "defs", "pattern", "rect", "text", "line"}, name) {
				t.Errorf("there is an element %s", name)
			}
			for _, a := range token.Attr {
				switch {
				case strings.HasPrefix(a.Name.Local, "on"), strings.Contains(a.Name.Local, "href"), strings.Contains(a.Value, "//") && a.Name.Local != "xmlns":
					t.Errorf("%s has %s=%q", name, a.Name.Local, a.Value)
				case a.Name.Local == "class":
					class = a.Value
				case a.Name.Local == "id":
					d.ids[a.Value] = class
				}
			}
			d.elements[strings.TrimSuffix(name+" "+class, " ")]++
			path = append(path, name)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			switch text := string(token); {
			case len(path) == 0:
			case path[len(path)-1] == "title" && len(path) == 3:
				d.titles = append(d.titles, text)
			case path[len(path)-1] == "text":
				d.words = append(d.words, text)
			}
		}
	}
	for _, outside := range []string{"url(http", "@import", "<script", "<foreignObject"} {
		if strings.Contains(d.text, outside) {
			t.Errorf("the picture has %s", outside)
		}
	}
	return d
}

// The history of the tests has three scenes, whose holders, fences and accidents are all there.
func TestPictureHasWhatTheHistoryHas(t *testing.T) {
	d := draw(t, historytest.Sound())
	for _, want := range []string{
		"A hand-over", "Worker 3 releases the lock, and worker 2, the first in the queue, holds it 1.0 ms later. Nobody polls.",
		"A crash", "Worker 1 is killed while it holds the lock. Its lease of 1.5 s ends, and worker 3 has the lock 1.5 s after the kill.",
		"A pause", "Worker 2 sleeps past its lease. Woken, it finds the lease lost; its write is refused: …0000000114 < …0000000115.",
		"kill -9", "kill -STOP", "write refused",
		"worker 1 does not run, and its lease with fence …0000000111 goes on; waiting: 3, 2",
		"worker 3 holds the lock with fence …0000000112; waiting: 2",
		"worker 2 does not run, and its lease with fence …0000000114 goes on; waiting: 3",
	} {
		if !slices.Contains(d.words, want) {
			t.Errorf("it does not say %q, but\n%s", want, strings.Join(d.words, "\n"))
		}
	}
	// Each scene has the grants that fall into its time, each with its fence.
	for _, want := range []string{"worker 1, fence 111, 10 ms", "worker 3, fence 112, 10 ms", "worker 2, fence 113, 10 ms", "worker 2, fence 114, 10 ms", "worker 3, fence 115, 10 ms"} {
		if !slices.Contains(d.titles, want) {
			t.Errorf("it has no %q, but %q", want, d.titles)
		}
	}
	if d.elements["rect lease"] != 3 || d.elements["rect dead"] != 2 || d.elements["rect paused"] != 2 { // one of each in the legend
		t.Errorf("elements: %v", d.elements)
	}
}

// Without animations all is seen: nothing is covered, and the last moment of each scene is shown.
func TestPictureStandsStill(t *testing.T) {
	d := draw(t, historytest.Sound())
	before, moving, found := strings.Cut(d.text, "@media (prefers-reduced-motion:no-preference){")
	if !found || strings.Contains(before, "animation") {
		t.Error("there are animations that no media query guards")
	}
	if !strings.Contains(before, ".curtain{transform:scaleX(0)") || !strings.Contains(before, "prefers-color-scheme:dark") {
		t.Errorf("without animations it looks different: %s", before)
	}
	moving, _, _ = strings.Cut(moving, "</style>")
	rules := regexp.MustCompile(`#(\w+)\{animation:(\w+) `).FindAllStringSubmatch(moving, -1)
	last := 0
	for _, rule := range rules {
		if rule[1] != rule[2] || !strings.Contains(moving, "@keyframes "+rule[1]+"{") {
			t.Errorf("%q has no keyframes", rule[0])
		}
		if _, exists := d.ids[rule[1]]; !exists {
			t.Errorf("nothing is called %s", rule[1])
		}
		last += strings.Count(d.ids[rule[1]], "last")
	}
	if len(rules) < 9 || last != 3 {
		t.Errorf("%d animations, %d last moments", len(rules), last)
	}
	if strings.Count(moving, "{")+1 != strings.Count(moving, "}") { // the last one closes the media query
		t.Error("the style's braces do not match")
	}
}

// What did not happen is left out, and nothing at all is an error.
func TestPictureLeavesOut(t *testing.T) {
	h := historytest.Sound()
	historytest.Drop(history.Paused)(h)
	if d := draw(t, h); slices.Contains(d.words, "A pause") || !slices.Contains(d.words, "A crash") {
		t.Errorf("%q", d.words)
	}
	h = historytest.Sound()
	historytest.Change(history.Wrote, 3, func(e *history.Event) { e.Refused = false })(h)
	if d := draw(t, h); !slices.Contains(d.words, "write accepted") {
		t.Errorf("%q", d.words)
	}
	historytest.Drop(history.Granted)(h)
	for _, h := range []*history.History{h, {}} {
		if err := Write(io.Discard, h, historytest.TTL); err == nil {
			t.Error("it draws nothing")
		}
	}
}

func TestStepsAreRound(t *testing.T) {
	for whole, want := range map[time.Duration]time.Duration{
		40 * time.Millisecond: 5 * time.Millisecond, 1600 * time.Millisecond: 200 * time.Millisecond,
		2200 * time.Millisecond: 500 * time.Millisecond, 3 * time.Microsecond: time.Microsecond,
	} {
		if got := stepFor(whole); got != want {
			t.Errorf("%s: %s, want %s", whole, got, want)
		}
	}
}
