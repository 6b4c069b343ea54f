package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An SVG of a screen has each line once, and shows it from the time at which it appeared: testdata/recording.svg lasts 3 s and rests for
// 8 s; its lines appear at 0 s, 0.5 s, 2.5 s and 3 s. Without animations, the SVG shows the end. If you have looked at a new one and it is
// right, remove the old one: the test writes it.
func TestRecording(t *testing.T) {
	const file = "testdata/recording.svg"
	synctest.Test(t, func(t *testing.T) {
		terminal, command := io.Pipe()
		var shown bytes.Buffer
		go func() {
			defer command.Close()
			show := func(text string) {
				shown.WriteString(styled.ReplaceAllString(text, "$2") + "\n")
				fmt.Fprint(command, text+"\r\n")
			}
			show("\x1b[1mfirst\x1b[0m" + ` & <"last">`)
			time.Sleep(500 * time.Millisecond)
			show("")
			show("   \x1b[1;31msecond\x1b[0m, at the same time")
			time.Sleep(2 * time.Second)
			show("third")
			time.Sleep(500 * time.Millisecond)
			for n := range window {
				show(fmt.Sprint("end ", n))
			}
		}()
		s := record(terminal)

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
