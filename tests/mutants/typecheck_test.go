package mutants

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const library = "github.com/holdfast-go/holdfast"

// checker type-checks packages of the library with some of their files changed. To build each mutant with the go
// command would take minutes: what the packages import is built once, and read from there.
type checker struct {
	exports  map[string]string // the files with what a package exports, by import path
	files    *token.FileSet
	mu       sync.Mutex // guards what follows: one goroutine at a time may check
	imported types.Importer
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
		"./...", "./holdfastgoredis", "./holdfastrueidis", "./holdfastvalkey")
	list.Dir = "../.."
	var complaint bytes.Buffer
	list.Stderr = &complaint
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -export: %v\n%s", err, complaint.String())
	}
	c := &checker{exports: map[string]string{}, files: token.NewFileSet()}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.exports[name] = file
	}
	c.imported = importer.ForCompiler(c.files, "gc", func(name string) (io.ReadCloser, error) {
		file, ok := c.exports[name]
		if !ok || file == "" {
			return nil, fmt.Errorf("the library and its adapters do not import %s", name)
		}
		return os.Open(file)
	})
	return c
}

// check type-checks the packages of the files in edited, which are named relative to the library's root. Each is
// checked against the others as they are unedited.
func (c *checker) check(edited map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := map[string]bool{}
	for file := range edited {
		folder := path.Dir(file)
		if path.Ext(file) != ".go" || done[folder] {
			continue
		}
		done[folder] = true
		if err := c.checkFolder(folder, edited); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkFolder(folder string, edited map[string]string) error {
	all, err := build.ImportDir(filepath.Join("../..", filepath.FromSlash(folder)), 0)
	if err != nil {
		return err
	}
	var parsed []*ast.File
	for _, name := range all.GoFiles {
		var text any // nil: as it is on disk
		if t, ok := edited[path.Join(folder, name)]; ok {
			text = t
		}
		f, err := parser.ParseFile(c.files, filepath.Join(all.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	conf := types.Config{Importer: c.imported}
	_, err = conf.Check(path.Join(library, folder), c.files, parsed, nil)
	return err
}

// A checker that took everything would leave it to the hunt to find a mutant that does not compile.
func TestTheCheckerRefusesWhatDoesNotCompile(t *testing.T) {
	c := newChecker(t)
	for _, file := range []string{
		"internal/pipe/line.go", "holdfastgoredis/driver.go", "holdfastrueidis/driver.go", "holdfastvalkey/driver.go",
	} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		for name, more := range map[string]string{
			"nothing wrong":   "",
			"an unknown name": "\nfunc extra() { undeclared() }\n",
			"an unused name":  "\nfunc extra() { unused := 1 }\n",
			"a missing brace": "\nfunc extra() {\n",
		} {
			err := c.check(map[string]string{file: string(text) + more})
			if wrong := more != ""; wrong != (err != nil) {
				t.Errorf("%s: %s: %v", file, name, err)
			}
		}
	}
}
