package documents

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// runBy says which test runs the blocks of a document. The first row that fits counts.
var runBy = []struct{ path, kind, test string }{
	{"README.md", "go", "TestReadmesProgramRuns"},
	{"docs/guides/http.md", "console", "TestToTry"}, // testdata/http.go.txt
	{"docs/guides/kubernetes.md", "dockerfile", "no test: it takes docker"},
	{"docs/*/*.md", "sql", "TestGoRuns"},
	{"docs/guides/*.md", "go", "TestGoRuns"},
	{"docs/migration/*.md", "go", "TestGoRuns"},
	{"docs/OBSERVABILITY.md", "go", "TestGoRuns"},
	{"docs/guides/*.md", "sh", "TestShellRuns"},
	{"docs/OBSERVABILITY.md", "sh", "TestShellRuns"},
	{"docs/guides/*.md", "cron", "TestConfigurationsRun"},
	{"docs/guides/*.md", "ini", "TestConfigurationsRun"},
	{"docs/guides/*.md", "yaml", "TestConfigurationsRun"},
	{"docs/SECURITY.md", "", "TestACLsWorkAsTheyArePasted"},
	{"docs/scripts/README.md", "sh", "TestByHandWorksAsItIsPasted"},
	{"examples/python/README.md", "console", "TestTheClientInPythonConforms"},
	{"examples/typescript/README.md", "console", "TestTheClientInTypeScriptConforms"},
	{"examples/typescript/README.md", "ts", "TestTheClientInTypeScriptConforms"},
	{"examples/*/README.md", "sh", "TestReadmesOfExamples"},
	{"integrations/*/README.md", "go", "TestREADME"}, // in readme_test.go beside it
	{"CONTRIBUTING.md", "sh", "TestLongCommandsExist"},
	{"docs/PERFORMANCE.md", "sh", "TestLongCommandsExist"},
	{"docs/RELIABILITY.md", "sh", "TestLongCommandsExist"},
	{"models/README.md", "sh", "TestLongCommandsExist"},
	{"tests/*/README.md", "sh", "TestLongCommandsExist"},
}

// runBy returns the name of the test that runs the block, or "".
func (b block) runBy(p page) string {
	for _, a := range attempts {
		if a.of(p, b) {
			return "TestBlocksRunWithChanges"
		}
	}
	if p.path == "README.md" && b.kind == "sh" {
		switch strings.TrimSpace(b.body) {
		case "go run ./cmd/holdfast demo":
			return "TestDemo"
		case "make test":
			return "all of them"
		}
	}
	for _, row := range runBy {
		if fits, _ := path.Match(row.path, p.path); fits && b.kind == row.kind {
			return row.test
		}
	}
	return ""
}

// documents returns all documents of the repository.
func documents(t *testing.T) (all []page) {
	t.Helper()
	expect.OK(t, uses())
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "dist" || entry.Name() == "node_modules" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, _ = filepath.Rel(root, path)
		p := page{path: filepath.ToSlash(path), text: string(text)}
		for _, m := range fenced.FindAllStringSubmatch(p.text, -1) {
			p.blocks = append(p.blocks, block{m[1], m[2]})
		}
		all = append(all, p)
		return nil
	})
	if err != nil || len(all) < 80 {
		t.Fatalf("%d documents, %v", len(all), err)
	}
	return all
}

// sources returns the repository's Go, and what becomes Go here, in the files whose paths match; without tests, on request.
func sources(t *testing.T, paths string, tests bool) string {
	t.Helper()
	var all strings.Builder
	match := regexp.MustCompile(paths)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "dist") {
			return filepath.SkipDir
		}
		rel, _ := filepath.Rel(root, path)
		if err != nil || !match.MatchString(filepath.ToSlash(rel)) || !tests && strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	expect.OK(t, err)
	return all.String()
}

// Every block of Go, commands or configuration in every document has a test. With -v it lists them.
func TestEveryBlockHasATest(t *testing.T) {
	tests := sources(t, `\.go(\.txt)?$`, true)
	count := map[string]int{}
	var list []string
	for _, p := range documents(t) {
		at := fenced.FindAllStringIndex(p.text, -1)
		for i, b := range p.blocks {
			line := strings.Count(p.text[:at[i][0]], "\n") + 1
			by := b.runBy(p)
			switch {
			case by == "" && (b.kind == "text" || b.kind == "" && !regexp.MustCompile(`(?m)^(\$|ACL|go|make|holdfast) `).MatchString(b.body)):
				continue // a drawing, or what a command printed
			case by == "":
				t.Errorf("%s:%d: no test runs this:\n%s", p.path, line, b.body)
			case strings.HasPrefix(by, "Test") && !strings.Contains(tests, "func "+by+"("):
				t.Errorf("%s:%d: there is no %s", p.path, line, by)
			}
			if by == "TestREADME" {
				beside, err := os.ReadFile(filepath.Join(root, filepath.Dir(p.path), "readme_test.go"))
				if err != nil || !strings.Contains(unindented(string(beside)), unindented(b.body)) {
					t.Errorf("%s:%d: readme_test.go does not have these lines: %v\n%s", p.path, line, err, b.body)
				}
			}
			count[by]++
			first, _, _ := strings.Cut(strings.TrimSpace(b.body), "\n")
			list = append(list, fmt.Sprintf("%-36s %-10s %-28s %.60s", fmt.Sprintf("%s:%d", p.path, line), b.kind, by, first))
		}
	}
	slices.Sort(list)
	t.Log("\n" + strings.Join(list, "\n"))
	t.Logf("%d blocks: %v", len(list), count)
}

// unindented returns the lines without the space that they begin with.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}
