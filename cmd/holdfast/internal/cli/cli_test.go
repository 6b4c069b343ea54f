package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

func TestEveryFlagIsCompletedAndInTheManual(t *testing.T) {
	shells := map[string]string{}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		shells[shell] = printed(t, "completion", shell)
	}
	total := 0
	for _, c := range commands() {
		page := printed(t, "man", c.name)
		_, bash, found := strings.Cut(shells["bash"], "\n\t"+c.name+") words='")
		bash, _, _ = strings.Cut(bash, "'")
		_, zsh, inZsh := strings.Cut(shells["zsh"], "\n\t"+c.name+")\n")
		zsh, _, _ = strings.Cut(zsh, ";;")
		if !found || !inZsh || !strings.Contains(shells["fish"], "-a "+c.name+" -d '") {
			t.Errorf("%s is not completed", c.name)
		}
		if summary := troff(c.summary); !strings.Contains(page, summary) || !strings.Contains(printed(t, "man"), summary) {
			t.Errorf("man %s: want %q", c.name, summary)
		}
		_, flags, _ := strings.Cut(printed(t, "help", c.name), "\nFlags:\n")
		for _, match := range helpFlag.FindAllStringSubmatch(flags, -1) {
			flag := match[1]
			total++
			if !slices.Contains(strings.Fields(bash), flag) {
				t.Errorf("bash: %s %s is missing", c.name, flag)
			}
			if !regexp.MustCompile(regexp.QuoteMeta(flag) + `(=-?)?\[`).MatchString(zsh) {
				t.Errorf("zsh: %s %s is missing", c.name, flag)
			}
			if !strings.Contains(shells["fish"], "_from "+c.name+"' -l "+flag[2:]+" ") {
				t.Errorf("fish: %s %s is missing", c.name, flag)
			}
			if !strings.Contains(page, strings.ReplaceAll(flag, "-", `\-`)) {
				t.Errorf("man: %s %s is missing", c.name, flag)
			}
		}
		if !strings.HasPrefix(page, ".TH ") || strings.Count(page, ".SH ") < 4 || strings.Count(page, ".nf\n") != strings.Count(page, ".fi\n") {
			t.Errorf("man %s:\n%s", c.name, page)
		}
	}
	for shell, script := range shells {
		if strings.Contains(script, operator()) {
			t.Errorf("%s: the completions of packages would name who built them", shell)
		}
	}
	if total < 50 {
		t.Errorf("%d flags were found", total)
	}
}

// The shells and programs that are installed read the scripts and the pages without complaint.
func TestShellsAndManReadWhatIsGenerated(t *testing.T) {
	dir := t.TempDir()
	check := func(stdin string, program string, args ...string) {
		t.Helper()
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("SKIPPED: there is no %s", program)
			return
		}
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "LC_ALL=C.UTF-8")
		cmd.Stdin = strings.NewReader(stdin)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if program == "mandoc" { // it complains in its output, and there that no page has a date
			out = regexp.MustCompile(`(?m)^.*missing date.*\n`).ReplaceAll(out, nil)
			err = nil
		} else {
			out = nil
		}
		if err != nil || said.Len()+len(out) > 0 {
			t.Errorf("%s: %v\n%s%s", cmd, err, &said, out)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := filepath.Join(dir, shell)
		if err := os.WriteFile(script, []byte(printed(t, "completion", shell)), 0o644); err != nil {
			t.Fatal(err)
		}
		check("", shell, "-n", script)
	}
	printed(t, "man", "--dir", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(commands())+1 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		check("", "groff", "-man", "-ww", "-Tutf8", "-Kutf8", page)
	}
	check("", "mandoc", append([]string{"-Tlint", "-Wwarning"}, pages...)...)
}

// bash completes commands, flags, and the command after --.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED: there is no bash")
	}
	for line, want := range map[string]string{
		"holdfast acq":              "acquire",
		"holdfast help rel":         "release",
		"holdfast man lat":          "latch",
		"holdfast latch x 5 wa":     "wait",
		"holdfast completion z":     "zsh",
		"holdfast acquire --ticket": "--ticket --ticket-fd",
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
	for _, code := range []int{
		exitcode.None, exitcode.Usage, exitcode.NoInput, exitcode.Unavailable, exitcode.Internal, exitcode.System, exitcode.CannotCreate,
		exitcode.Busy, exitcode.Denied, exitcode.Config, exitcode.Lost, exitcode.Tries, exitcode.Broken, exitcode.Overtime,
		exitcode.NotRunnable, exitcode.NotFound,
	} {
		if !strings.Contains(text, fmt.Sprintf("\n%5d  ", code)) {
			t.Errorf("%d has no meaning", code)
		}
	}
}
