package cli

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// printed runs a command line, and returns what it prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("holdfast %q: exit code %d, %s", args, code, &stderr)
	}
	return stdout.String()
}

// helpFlag matches a flag in a help text.
var helpFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z0-9-]+)`)

func TestEveryFlagIsCompleted(t *testing.T) {
	script := printed(t, "completion", "bash")
	total := 0
	for _, c := range commands() {
		_, words, found := strings.Cut(script, "\n\t"+c.name+") words='")
		words, _, _ = strings.Cut(words, "'")
		if !found {
			t.Errorf("%s is not completed", c.name)
		}
		_, flags, _ := strings.Cut(printed(t, "help", c.name), "\nFlags:\n")
		for _, match := range helpFlag.FindAllStringSubmatch(flags, -1) {
			if total++; !slices.Contains(strings.Fields(words), match[1]) {
				t.Errorf("%s %s is missing", c.name, match[1])
			}
		}
	}
	if strings.Contains(script, operator()) {
		t.Error("the completions of packages would name who built them")
	}
	if total < 50 {
		t.Errorf("%d flags were found", total)
	}
}

// bash completes what stands there, and a command after --.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED: there is no bash")
	}
	for line, want := range map[string]string{
		"holdfast acq":              "acquire",
		"holdfast help rel":         "release",
		"holdfast acquire --ticket": "--ticket",
		"holdfast elect x --ht":     "--http",
		"holdfast run x -- bas":     "bash",
		"holdfast version --":       "--json --help",
	} {
		cmd := exec.Command(bash, "-c", printed(t, "completion", "bash")+`
COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _holdfast; echo "${COMPREPLY[@]}"`, "bash", line)
		out, err := cmd.CombinedOutput()
		got := strings.Fields(string(out))
		if want := strings.Fields(want); err != nil || !slices.Equal(got, want) && (len(want) != 1 || !slices.Contains(got, want[0])) {
			t.Errorf("%q: %q, want %q: %v", line, got, want, err)
		}
	}
}

func TestExitCodesAreDocumentedInOnePlace(t *testing.T) {
	text := printed(t, "help", "exit-codes")
	for _, code := range []int{exitcode.None, exitcode.Usage, exitcode.NoInput, exitcode.Unavailable, exitcode.Internal, exitcode.System, exitcode.CannotCreate,
		exitcode.Busy, exitcode.Denied, exitcode.Config, exitcode.Lost, exitcode.Tries, exitcode.Broken, exitcode.Overtime, exitcode.NotRunnable, exitcode.NotFound} {
		if !strings.Contains(text, fmt.Sprintf("\n%5d  ", code)) {
			t.Errorf("%d has no meaning", code)
		}
	}
}
