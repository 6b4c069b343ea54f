package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

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
		must(t, os.WriteFile(script, []byte(printed(t, "completion", shell)), 0o644))
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
		"holdfast acq":            "acquire",
		"holdfast help rel":       "release",
		"holdfast man lat":        "latch",
		"holdfast latch x 5 wa":   "wait",
		"holdfast completion z":   "zsh",
		"holdfast acquire --tick": "--ticket",
		"holdfast elect x --ht":   "--http",
		"holdfast run x -- bas":   "bash",
		"holdfast version --":     "--json --help",
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

// A shell reads each word as the original text. Nothing in a word can affect the terminal or the shell.
func TestShellWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	for text, want := range map[string]string{
		"orders/42":       "orders/42",
		"":                "''",
		"a b":             "'a b'",
		"it's $(x)":       `'it'\''s $(x)'`,
		"-n":              "'-n'",
		"日本":              "'日本'",
		"a\u202eb'\\":     `$'a\u202eb\'\\'`,
		"\u009b31m$(x)\"": `$'\u009b31m$(x)"'`,
	} {
		word := shellWord(text)
		if word != want {
			t.Errorf("%q becomes %s, want %s", text, word, want)
		}
		if err != nil {
			continue
		}
		cmd := exec.Command(bash, "-c", "printf %s "+word)
		if text == "-n" {
			cmd = exec.Command(bash, "-c", "printf %s -- "+word)
			text = "---n"
		}
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		if said, err := cmd.Output(); err != nil || string(said) != text {
			t.Errorf("bash reads %s as %q, %v; want %q", word, said, err, text)
		}
	}
}

func TestVersionOfABuild(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		module          string
		settings        []debug.BuildSetting
		version, commit string
		want            build
	}{
		"nothing is known":          {want: build{Version: next + "-dev"}},
		"go build in a checkout":    {module: "v0.1.1-0.20261126031500-0123456789ab+dirty", settings: vcs, want: build{Version: next + "-dev", Commit: "0123456789abcdef0123", Modified: true}},
		"go run":                    {module: "(devel)", want: build{Version: next + "-dev"}},
		"go install of a version":   {module: "v1.4.2", want: build{Version: "1.4.2"}},
		"go install of a candidate": {module: "v1.5.0-rc.1", want: build{Version: "1.5.0-rc.1"}},
		"go install of a commit":    {module: "v0.0.0-20261126031500-0123456789ab", want: build{Version: next + "-dev"}},
		"a release's program":       {module: "(devel)", version: "1.4.2", commit: "fedcba", want: build{Version: "1.4.2", Commit: "fedcba"}},
		"with a v":                  {version: "v1.4.2", want: build{Version: "1.4.2"}},
		"stamped in a checkout":     {module: "v1.3.9", settings: vcs, version: "1.4.2", commit: "fedcba", want: build{Version: "1.4.2", Commit: "fedcba", Modified: true}},
	} {
		c.want.Go, c.want.OS, c.want.Arch = runtime.Version(), runtime.GOOS, runtime.GOARCH
		info := &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}
		if got := buildOf(info, c.version, c.commit); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestVersionIsShown(t *testing.T) {
	for _, c := range []struct {
		build build
		want  string
	}{
		{build{Version: "1.4.2", Go: "go1.26.1", OS: "linux", Arch: "arm64"}, "holdfast 1.4.2 (go1.26.1, linux/arm64)"},
		{build{Version: "1.4.2", Go: "go1.26.1", OS: "linux", Arch: "arm64", Commit: "0123456789abcdef", Modified: true}, "holdfast 1.4.2 (go1.26.1, linux/arm64, commit 0123456789ab with changes)"},
		{build{Version: "1.4.2", Go: "go1.26.1", OS: "linux", Arch: "arm64", Commit: "01234"}, "holdfast 1.4.2 (go1.26.1, linux/arm64, commit 01234)"},
	} {
		if got := c.build.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "15": 15 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, "250ms": 250 * time.Millisecond,
	} {
		var s seconds
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %s, %v; want %s", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-5s", "soon", "5 s", "1e300", "NaN", "Inf"} {
		var s seconds
		if err := s.Set(text); err == nil {
			t.Errorf("%q is accepted, as %s", text, time.Duration(s))
		}
	}
}

// The text in the place of a number may be a misplaced password.
func TestErrorsDoNotQuoteValues(t *testing.T) {
	for _, line := range []string{"run --weight=secret", "run --quiet=secret", "run --wait secret", "breaks -n secret", "demo --seed secret"} {
		var stderr strings.Builder
		if code := Main(t.Context(), strings.Fields(line), nil, io.Discard, &stderr); code != 64 || strings.Contains(stderr.String(), "secret") || !strings.Contains(stderr.String(), ": want ") {
			t.Errorf("%s: exit code %d, %s", line, code, &stderr)
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
