package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// An SVG of a screen has each line once, and shows it from the time at which it appeared: testdata/recording.svg lasts 3 s and rests for
// 8 s; its lines appear at 0 s, 0.5 s, 2.5 s and 3 s. Without animations, the SVG shows the end. If you have looked at a new one and it is
// right, remove the old one: the test writes it.
func TestRecording(t *testing.T) {
	const file = "testdata/recording.svg"
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		s := newScreen(&shown)
		s.line(bold("first") + ` & <"last">`)
		time.Sleep(500 * time.Millisecond)
		s.line("")
		s.line("   " + red("second") + ", at the same time")
		time.Sleep(2 * time.Second)
		s.line("third")
		time.Sleep(500 * time.Millisecond)
		for n := range window {
			s.line(fmt.Sprint("end ", n))
		}

		got := string(s.svg())
		want, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.WriteFile(file, []byte(got), 0o644)
		}
		if err != nil || got != string(want) {
			t.Errorf("%v; the recording differs from %s:\n%s", err, file, got)
		}
		if err := xml.Unmarshal([]byte(got), new(struct{ XMLName xml.Name })); err != nil {
			t.Error(err)
		}
		if elsewhere := regexp.MustCompile(`<script|<foreignObject|href| on\w+=|url\(|@import`).FindString(got); elsewhere != "" {
			t.Errorf("the recording has %s", elsewhere)
		}
		_, lines, _ := strings.Cut(got, `<g id="scroll">`)
		lines = html.UnescapeString(regexp.MustCompile(`<.*?>`).ReplaceAllString(lines, ""))
		if want := strings.ReplaceAll(shown.String(), "\n\n", "\n"); strings.TrimSpace(lines) != strings.TrimSpace(want) {
			t.Errorf("it has the lines\n%s\nnot\n%s", lines, want)
		}
		still, moving, found := strings.Cut(got, "@media (prefers-reduced-motion:no-preference){")
		if !found || strings.Contains(still, "animation") || strings.Count(moving, "animation:") != 2 {
			t.Error("an animation is not guarded by the media query")
		}
		last := fmt.Sprintf("{transform:translateY(%dpx)}", -4*row)
		ends := regexp.MustCompile(`@keyframes scroll\{.*` + regexp.QuoteMeta(last) + `\}`)
		if !strings.Contains(still, "#scroll"+last) || !ends.MatchString(moving) {
			t.Errorf("it does not rest at %s: %s", last, still)
		}
	})
}
