package command

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// On a machine with nothing but holdfast, the demo shows everything and succeeds.
func TestDemo(t *testing.T) {
	t.Parallel()
	picture, screen := filepath.Join(t.TempDir(), "demo.svg"), filepath.Join(t.TempDir(), "screen.svg")
	stdout := play(t, "--seed", "1", "--record", picture, "--record-screen", screen)
	text := drawn(t, picture)
	for _, scene := range []string{">A hand-over<", ">A crash<", ">A pause<", ">write refused<"} {
		expect.Contains(t, "the picture", text, scene)
	}
	// The recording has what was shown, line by line.
	_, text, _ = strings.Cut(drawn(t, screen), `<g id="scroll">`)
	lines := html.UnescapeString(regexp.MustCompile(`<.*?>`).ReplaceAllString(text, ""))
	expect.Equal(t, "the recording", strings.TrimSpace(lines), strings.TrimSpace(strings.ReplaceAll(stdout, "\n\n", "\n")))
}

// drawn parses an SVG. It fails the test if the SVG is malformed.
func drawn(t *testing.T, file string) string {
	t.Helper()
	text := expect.Of(os.ReadFile(file)).OK(t)
	expect.Err(t, filepath.Base(file), xml.Unmarshal(text, new(struct{ XMLName xml.Name })), nil)
	return string(text)
}

// play runs the whole demo. It limits itself to 26 s, and then checks what happened. On a machine that stood
// still meanwhile it may miss something, and is played again.
func play(t *testing.T, flags ...string) (stdout string) {
	t.Helper()
	machine.Undisturbed(t, func() error {
		began := time.Now()
		var code int
		var stderr string
		code, stdout, stderr = runWith(t, "", append([]string{"demo"}, flags...)...)
		var wrong []error
		complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
		if code != 0 || stderr != "" {
			complain("exit code %d: %s", code, stderr)
		}
		if took := time.Since(began); took > 30*time.Second+machine.HeldUp(began) {
			complain("it took %v", took)
		}
		for _, row := range []string{
			`^Holdfast demo  4 processes, embedded server, lease time 1\.5s$`,
			`^   10  .* drawn by worker [1-4]$`,
			` kill -9 to worker [1-4], `,
			` kill -STOP to worker [1-4]: `,
			` kill -CONT to worker [1-4]: `,
			`it asks its lease: holdfast: lease of "ledger" lost: `,
			`it writes anyway: refused, fence …\d+ is below …\d+$`,
			`^   draws +10$`,
			`^   grants +\d+$`,
			`^   hand-overs +\d+   median [\d.]+[mµ]s from Release to the next$`,
			`^   kills survived +1   next holder after [\d.]+m?s; TTL 1\.5s$`,
			`^   pauses survived +1   next holder after [\d.]+m?s; TTL 1\.5s$`,
			`^   stale leases refused +1$`,
			`^   stale writes refused +1$`,
			`^All 8 hold, in `,
		} {
			if !regexp.MustCompile(`(?m)` + row).MatchString(stdout) {
				complain("the output has no line %s", row)
			}
		}
		if n := strings.Count(stdout, "\n   ok     "); n != 8 || strings.Contains(stdout, "FAILED") || strings.Contains(stdout, "\x1b") {
			complain("%d checks are ok; or one failed, or there are colours", n)
		}
		for line := range strings.Lines(stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				complain("%d columns: %s", n, line)
			}
		}
		if wrong == nil {
			return nil
		}
		return fmt.Errorf("%w\n%s", errors.Join(wrong...), stdout)
	})
	return stdout
}
