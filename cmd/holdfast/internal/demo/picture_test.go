package demo

import (
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

func draw(t *testing.T, h *History) string {
	t.Helper()
	svg, err := picture(h)
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

// The picture of the tests' history, testdata/picture.svg, has three scenes: a hand-over, a crash and a pause. If you have looked at a new
// one and it is right, remove the old one: the test writes it.
func TestPicture(t *testing.T) {
	const file = "testdata/picture.svg"
	got := draw(t, Sound())
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(file, []byte(got), 0o644)
	}
	if err != nil || got != string(want) {
		t.Errorf("%v; the picture differs from %s:\n%s", err, file, got)
	}
	if err := xml.Unmarshal([]byte(got), new(struct{ XMLName xml.Name })); err != nil {
		t.Error(err)
	}
	if elsewhere := regexp.MustCompile(`<script|<foreignObject|href| on\w+=|url\(http|@import`).FindString(got); elsewhere != "" {
		t.Errorf("the picture has %s", elsewhere)
	}
	// Without animations, everything is visible.
	still, _, found := strings.Cut(got, "@media (prefers-reduced-motion:no-preference){")
	if !found || strings.Contains(still, "animation") || !strings.Contains(still, ".curtain{transform:scaleX(0)") {
		t.Errorf("without animations it looks different: %s", still)
	}
}

// The picture leaves out what did not happen. If nothing happened, there is an error.
func TestPictureLeavesOut(t *testing.T) {
	h := Sound()
	Drop(Paused)(h)
	if text := draw(t, h); strings.Contains(text, ">A pause<") || !strings.Contains(text, ">A crash<") {
		t.Error(text)
	}
	h = Sound()
	Change(Wrote, 3, func(e *Event) { e.Refused = false })(h)
	if text := draw(t, h); !strings.Contains(text, ">write accepted<") {
		t.Error(text)
	}
	Drop(Granted)(h)
	for _, h := range []*History{h, {}} {
		if _, err := picture(h); err == nil {
			t.Error("it draws nothing")
		}
	}
}
