package documents

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// The Go of the guides, of OBSERVABILITY.md and of docs/migration does what the pages say. Each page is a package. It has the page's
// blocks as they are printed, and tests for them, testdata/PAGE.go.txt, that also have what the blocks call. testdata/all.go.txt
// runs the tests, and fails if a statement of a block did not run. Only statements that return an error need not run.
func TestGoRuns(t *testing.T) {
	soak.Nightly(t)
	for _, m := range []module{
		{folder: ".", path: "github.com/holdfast-go/holdfast/tests/documents/virtual/"},
		{folder: filepath.Join("..", "bench"), path: "github.com/holdfast-go/holdfast/tests/bench/virtual/", migration: true}, // it has the other libraries
	} {
		name := "guides"
		if m.migration {
			name = "migration"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.run(t)
		})
	}
}

// module is where some of the pages run.
type module struct {
	folder    string
	path      string // what the packages' paths begin with
	migration bool   // the pages in docs/migration; otherwise the guides
}

func (m module) run(t *testing.T) {
	files := map[string]string{}
	imports, calls := strings.Builder{}, strings.Builder{}
	add := func(name, file, text string) {
		folder := expect.Of(filepath.Abs(filepath.Join(m.folder, "virtual", name))).OK(t)
		files[filepath.Join(folder, file)] = text
	}
	n := 0
	for _, p := range pages(t) {
		if p.isMigration() != m.migration || p.path == "README.md" || len(p.of("go")) == 0 {
			continue
		}
		n++
		name := p.name()
		file := expect.Of(filepath.Abs(filepath.Join("testdata", name+".go.txt"))).OK(t)
		checks := testdata(t, name+".go.txt")
		if pretty, err := format.Source([]byte(checks)); err != nil || string(pretty) != checks {
			t.Errorf("%s is not as gofmt has it: %v", file, err)
		}
		printed := p.asGo()
		add(name, "printed.go", p.counted(t, printed))
		add(name, "checks.go", "//line "+file+":1\n"+checks)
		if ddl := p.of("sql"); len(ddl) > 0 {
			add(name, "sql.go", fmt.Sprintf("package page\n\nvar printedSQL = %q\n", strings.Join(ddl, "")))
		}
		if shell := p.of("console"); len(shell) > 0 {
			add(name, "console.go", fmt.Sprintf("package page\n\nvar printedConsole = %q\n", strings.Join(shell, "")))
		}
		fmt.Fprintf(&imports, "\tpage_%s %q\n", name, m.path+name)
		fmt.Fprintf(&calls, "\tpage(t, %q, page_%s.Ran.Count[:], page_%s.Ran.Pos[:], map[string]func(*testing.T){\n", filepath.Join(root, p.path), name, name)
		for _, test := range testFunc.FindAllStringSubmatch(printed+"\n"+checks, -1) {
			fmt.Fprintf(&calls, "\t\t%q: page_%s.%s,\n", test[1], name, test[1])
		}
		calls.WriteString("\t})\n")
		if m.migration {
			fmt.Fprintf(&imports, "\t_ %q\n", m.path+name+"_calls")
			add(name, "helpers.go", testdata(t, "migration.go.txt"))
			add(name+"_calls", "calls.go", testdata(t, "calls.go.txt")+testdata(t, name+"_calls.go.txt")+p.calls(t))
		}
	}
	expect.AtLeast(t, "pages with Go", n, 5)
	all := testdata(t, "all.go.txt")
	all = strings.Replace(all, "import (\n", "import (\n"+imports.String(), 1)
	all = strings.Replace(all, "\t// the pages\n", calls.String(), 1)
	add("all", "all_test.go", all)
	program := filepath.Join(t.TempDir(), "pages")
	if goCommand(t, m.folder, files, "test", "-vet=off", "-c", "-o", program, "./virtual/all"); t.Failed() {
		return
	}
	if out, err := exec.CommandContext(t.Context(), program, "-test.parallel=16", "-test.timeout=5m").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	testFunc    = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	printedAddr = regexp.MustCompile(`"[a-z]\d:\d+"`)
)

// packages are those that blocks may use.
var packages = []string{
	"context", "crypto/rand", "database/sql", "errors", "log", "log/slog", "net/http", "os", "strconv", "strings", "testing", "testing/synctest", "time",
	"github.com/bsm/redislock",
	"github.com/go-redsync/redsync/v4",
	"github.com/holdfast-go/holdfast",
	"github.com/holdfast-go/holdfast/barrier",
	"github.com/holdfast-go/holdfast/election",
	"github.com/holdfast-go/holdfast/fence",
	"github.com/holdfast-go/holdfast/holdfastgoredis",
	"github.com/holdfast-go/holdfast/holdfastotel",
	"github.com/holdfast-go/holdfast/holdfasttest",
	"github.com/holdfast-go/holdfast/inspect",
	"github.com/holdfast-go/holdfast/inspect/ui",
	"github.com/holdfast-go/holdfast/latch",
	"github.com/holdfast-go/holdfast/once",
	"github.com/holdfast-go/holdfast/quorum",
	"github.com/holdfast-go/holdfast/transfer",
	"github.com/redis/go-redis/v9",
	"github.com/redis/rueidis/rueidislock",
}

// asGo returns a file with the page's blocks of Go, which are declarations, in the same lines. A server's address, such as "n1:6379",
// becomes a call of at, which knows where the test has that server.
func (p page) asGo() string {
	lines := strings.Split(p.text, "\n")
	inside := false
	for i, line := range lines {
		switch {
		case line == "```go":
			inside, lines[i] = true, ""
		case line == "```":
			inside, lines[i] = false, ""
		case inside:
			lines[i] = printedAddr.ReplaceAllString(line, "at($0)")
		default:
			lines[i] = ""
		}
	}
	text := strings.Join(lines, "\n")
	head := "package page; import ("
	for _, name := range packages {
		base := path.Base(name)
		if regexp.MustCompile(`^v\d+$`).MatchString(base) {
			base = strings.TrimPrefix(path.Base(path.Dir(name)), "go-")
		}
		if regexp.MustCompile(`\b` + base + `\.`).MatchString(text) {
			head += fmt.Sprintf("%q; ", name)
		}
	}
	return head + ")" + text // the first line of a page is its title
}

// counted returns a file that counts which of its statements are carried out, in the variable Ran.
func (p page) counted(t *testing.T, text string) string {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in.go")
	expect.OK(t, os.WriteFile(in, []byte(text), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "tool", "cover", "-mode=set", "-var=Ran", in).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", p.path, err, out)
	}
	file := expect.Of(filepath.Abs(filepath.Join(root, p.path))).OK(t)
	return strings.Replace(string(out), in, file, 1) // the line directive
}

// Blocks of Go are as gofmt has them.
func TestGoIsFormatted(t *testing.T) {
	for _, p := range pages(t) {
		for _, body := range p.of("go") {
			if pretty, err := format.Source([]byte(body)); err != nil || string(pretty) != body {
				t.Errorf("%s: this is not as gofmt has it: %v\n%s", p.path, err, body)
			}
		}
	}
}

func (p page) isMigration() bool { return path.Dir(p.path) == "docs/migration" }

var tablesOfCalls = regexp.MustCompile(`(?ms)^## Calls$(.*?)^## `)

// calls returns a function with the calls, and other expressions, in a page's tables of them.
func (p page) calls(t *testing.T) string {
	t.Helper()
	section := tablesOfCalls.FindStringSubmatch(p.text)
	if section == nil {
		t.Fatalf("%s has no section Calls", p.path)
	}
	body := "func calls() {\n"
	n := 0
	var header []string
	for line := range strings.Lines(section[1]) {
		if !strings.HasPrefix(line, "|") {
			header = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if header == nil {
			header = cells
		}
		for i, cell := range cells {
			if strings.TrimSpace(header[i]) == "Java" {
				continue
			}
			for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
				n++
				e, err := parser.ParseExpr(span[1])
				if err != nil {
					t.Errorf("%s: %q is no expression: %v", p.path, span[1], err)
					continue
				}
				if _, isCall := e.(*ast.CallExpr); !isCall {
					body += "_ = "
				}
				body += span[1] + "\n"
			}
		}
	}
	expect.AtLeast(t, p.path+": calls", n, 10)
	return body + "}\n"
}
