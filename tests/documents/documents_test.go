// Package documents tests README.md, docs/OBSERVABILITY.md, docs/guides and docs/migration, which users read first: that their Go and
// their shell commands do what the pages say, and that the code has what they quote. It checks the links of all documents.
package documents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// root is the root of the repository.
var root = filepath.Join("..", "..")

// uses makes the go command run these tests again when documents, or what they describe, have changed.
var uses = sync.OnceValue(func() error { return inputs.In(root) })

type page struct {
	path   string // from the root
	text   string
	blocks []block
}

type block struct{ kind, body string }

var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// pages returns README.md, OBSERVABILITY.md, the guides and the pages on migration.
func pages(t *testing.T) []page {
	t.Helper()
	return slices.DeleteFunc(documents(t), func(p page) bool {
		fits, _ := path.Match("docs/[gm]*/*.md", p.path)
		return !fits && p.path != "README.md" && p.path != "docs/OBSERVABILITY.md"
	})
}

func (p page) of(kind string) (bodies []string) {
	for _, b := range p.blocks {
		if b.kind == kind {
			bodies = append(bodies, b.body)
		}
	}
	return bodies
}

// name is fit for a folder.
func (p page) name() string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return '_'
	}, strings.TrimSuffix(filepath.Base(p.path), ".md"))
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	text := expect.Of(os.ReadFile(filepath.Join("testdata", name))).OK(t)
	return string(text)
}

// The program of README.md runs.
func TestReadmesProgramRuns(t *testing.T) {
	soak.Nightly(t)
	const addr = `"127.0.0.1:6379"`
	body := readmesProgram(t)
	expect.Contains(t, "the program", body, addr)
	file := expect.Of(filepath.Abs(filepath.Join("virtual", "program", "main.go"))).OK(t)
	body = strings.Replace(body, addr, fmt.Sprintf("%q", server.Start(t, server.One(t)).Addr()), 1)
	goCommand(t, ".", map[string]string{file: body}, "run", "./virtual/program")
}

func readmesProgram(t *testing.T) string {
	t.Helper()
	for _, p := range pages(t) {
		if p.path == "README.md" {
			return p.of("go")[0]
		}
	}
	t.Fatal("there is no README.md")
	return ""
}

// goCommand runs the go command in a folder. It sees these files as well.
func goCommand(t *testing.T, folder string, files map[string]string, args ...string) {
	t.Helper()
	list := expect.Of(overlay.Replace(t.TempDir(), "", files)).OK(t)
	args = append([]string{args[0], "-overlay", list}, args[1:]...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Blocks of shell in the guides do what they say, pasted one after another, with stubs for the user's own programs. Blocks that
// cannot run so are marked console: see attempts.
func TestShellRuns(t *testing.T) {
	programs := withHoldfast(t)
	ran := 0
	for _, p := range pages(t) {
		blocks := p.of("sh")
		if p.path == "README.md" || len(blocks) == 0 {
			continue // what README.md begins with is the demo and make test
		}
		ran++
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			for _, m := range regexp.MustCompile(`\./(\w+)(\.sh)?\b`).FindAllString(strings.Join(blocks, ""), -1) {
				write(t, filepath.Join(work, m), "#!/bin/sh\nexit 0\n")
			}
			var urls []string
			for range strings.Count(p.path, "quorum")*2 + 1 {
				urls = append(urls, "redis://"+server.Start(t, server.One(t)).Addr())
			}
			const metrics = "/var/lib/node_exporter"
			script := "set -e\n" + strings.ReplaceAll(strings.Join(blocks, "\n"), metrics, work)
			paste(t, programs, work, script, "HOLDFAST_REDIS="+strings.Join(urls, " "))
			if written, err := filepath.Glob(filepath.Join(work, "*.prom")); err != nil || strings.Contains(p.text, metrics) != (len(written) > 0) {
				t.Errorf("the files with metrics are %q, %v", written, err)
			}
		})
	}
	if ran == 0 {
		t.Error("no guide has commands")
	}
}

// paste runs a script in that folder, with programs before others.
func paste(t *testing.T, programs, work, script string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // commands wait for each other, and machines are busy
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "--norc", "-c", script)
	shell.Dir, shell.WaitDelay = work, 10*time.Second
	shell.Env = append(os.Environ(), append(env, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))...)
	if out, err := shell.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, script, out)
	}
}

// write writes a program, or another file, into a folder that is made for it.
func write(t *testing.T, file, text string) {
	t.Helper()
	expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)))
}

// withHoldfast builds the command and returns its folder. It skips the test if shell cannot run, or with -short.
func withHoldfast(t *testing.T) string {
	t.Helper()
	soak.Nightly(t)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("SKIPPED, THE GUIDES' COMMANDS ARE NOT TESTED: %v", err)
	}
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "holdfast"), ".")
	build.Dir = filepath.Join(root, "cmd", "holdfast")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// The crontabs, systemd units and Kubernetes manifests of the guides run their jobs, for which there are stubs.
func TestConfigurationsRun(t *testing.T) {
	programs := withHoldfast(t)
	run := func(t *testing.T, line string) {
		t.Parallel()
		work := t.TempDir()
		job, ran := filepath.Join(work, "job"), filepath.Join(work, "ran")
		write(t, job, "#!/bin/sh\necho $HOLDFAST_FENCE >"+ran+"\n")
		for pattern, with := range map[string]string{
			`\bHOLDFAST_REDIS=\S+ `: "", `--min-hold=\S+`: "--min-hold=1ms", `--http=127.0.0.1:\d+`: "--http=127.0.0.1:0", `-- /\S+`: "-- " + job,
		} {
			line = regexp.MustCompile(pattern).ReplaceAllLiteralString(line, with)
		}
		sidecar := !strings.Contains(line, job)
		if sidecar {
			line += ` 2>said & until grep leading said; do kill -0 $! || exit; sleep 0.1; done; kill $!; wait $!; [ $? = 143 ]`
		}
		paste(t, programs, work, line, "HOLDFAST_REDIS=redis://"+server.Start(t, server.One(t)).Addr())
		if fence, err := os.ReadFile(ran); !sidecar && (err != nil || len(fence) < 10) {
			t.Errorf("the job has left %q, %v", fence, err)
		}
	}
	lines := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, line := range b.commands(t) {
				lines++
				t.Run(line, func(t *testing.T) { run(t, line) })
			}
		}
	}
	expect.AtLeast(t, "commands", lines, 5)
}

// commands returns the command lines of a crontab, a unit or a manifest. For containers whose image is the command's own, they
// begin with its first argument.
func (b block) commands(t *testing.T) (lines []string) {
	t.Helper()
	switch b.kind {
	case "cron":
		for _, m := range regexp.MustCompile(`(?m)^(?:\S+\s+){5}(.*)$`).FindAllStringSubmatch(b.body, -1) {
			lines = append(lines, m[1])
		}
	case "ini":
		for _, m := range regexp.MustCompile(`(?m)^ExecStart=/usr/bin/(.*)$`).FindAllStringSubmatch(b.body, -1) {
			lines = append(lines, m[1])
		}
	case "yaml":
		var all yaml.Node
		expect.OK(t, yaml.Unmarshal([]byte(b.body), &all))
		var walk func(n *yaml.Node)
		walk = func(n *yaml.Node) {
			for i, child := range n.Content {
				if i%2 == 1 && n.Kind == yaml.MappingNode && (n.Content[i-1].Value == "command" || n.Content[i-1].Value == "args") {
					line := ""
					if n.Content[i-1].Value == "args" {
						line = "holdfast"
					}
					for _, word := range child.Content {
						line += " " + word.Value
					}
					lines = append(lines, strings.TrimSpace(line))
				}
				walk(child)
			}
		}
		walk(&all)
	}
	return lines
}

// A promise is one that a test shows, and somebody can read them all.
func TestPromisesHaveTests(t *testing.T) {
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	expect.OK(t, err)
	for file, least := range map[string]int{"GUARANTEES.md": 100, "faults.md": 200} {
		text := expect.Of(os.ReadFile(filepath.Join(root, "docs", file))).OK(t)
		named := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(text), -1)
		expect.AtLeast(t, "tests that "+file+" names", len(named), least)
		for _, name := range named {
			if !tests[name] {
				t.Errorf("%s names %s, which is no test", file, name)
			}
		}
		if file != "GUARANTEES.md" {
			continue
		}
		for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|[^|]*\| ?([^|]*) \|$`).FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(row[2], "Test") && row[2] != "test" && !regexp.MustCompile(`^A\d$`).MatchString(row[1]) {
				t.Errorf("no test shows that %q", row[1])
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// What trouble.md says that people see, in the first cells of its tables, is what the code says.
func TestTroubleQuotesTheCode(t *testing.T) {
	text := expect.Of(os.ReadFile(filepath.Join(root, "docs", "guides", "trouble.md"))).OK(t)
	code := sources(t, `^((fence|internal|cmd/holdfast/internal)/.+|[^/]+)\.go$`, false)
	quotes := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		first, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range codeSpan.FindAllStringSubmatch(first, -1) {
			quotes++
			for part := range strings.SplitSeq(m[1], "…") {
				if !strings.Contains(code, strings.TrimSpace(part)) {
					t.Errorf("no code says %q of %s", part, line)
				}
			}
		}
	}
	expect.AtLeast(t, "quotes", quotes, 20)
}

var (
	link    = regexp.MustCompile(`(?m)(?:\]\(|^\[[^\]]+\]: |\bsrc(?:set)?=")([^)\s"]+)`) // inline, defined on a line of its own, or of a picture
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// Links within the repository lead to a file, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range documents(t) {
		path := filepath.Join(root, p.path)
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(p.text, ""), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s: the link %q leads to nothing: %v", path, m[1], err)
				continue
			}
			if anchor != "" && !info.IsDir() && !hasAnchor(t, target, anchor) {
				t.Errorf("%s: %s has no heading for the link %q", path, target, m[1])
			}
		}
	}
}

// hasAnchor reports whether a document has a heading whose anchor, as GitHub makes it, is that one.
func hasAnchor(t *testing.T, path, anchor string) bool {
	t.Helper()
	text := expect.Of(os.ReadFile(path)).OK(t)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		made := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		if made == anchor {
			return true
		}
	}
	return false
}
