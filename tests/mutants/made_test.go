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
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// The library still has the places that each mutant changes, and the new text still fits. That is checked now,
// and not only when the mutant is hunted. A script that fails because of a misspelled name would be found, too,
// but for the wrong reason.
func TestEveryMutantCanBeMade(t *testing.T) {
	places(t)
	scripts := readScripts(t)
	sound := scripts.assembled(t)
	compiled := newChecker(t)
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			edited := expect.Of(overlay.Files(m.Edits...)).OK(t)
			for name, source := range scripts.with(edited).assembled(t) {
				if source == sound[name] {
					continue
				}
				undeclared, err := globals(name, source)
				if err != nil {
					t.Error(err)
				}
				for _, g := range undeclared {
					t.Errorf("%s has no %q where the mutant needs it", name, g)
				}
			}
			expect.Err(t, "check", compiled.check(edited), nil)
			for _, test := range m.Tests {
				if !declares(t, filepath.Join("..", test.Package), test.Name) {
					t.Errorf("tests/%s has no %s", test.Package, test.Name)
				}
			}
		})
	}
}

// A name that no required fragment declares would be noticed only when that line runs. Each fragment must
// require what it uses itself, so that it does not depend on what else its scripts require.
func TestEveryScriptDeclaresWhatItUses(t *testing.T) {
	scripts := readScripts(t)
	for file := range scripts {
		if folder, name := path.Split(strings.TrimPrefix(file, scriptFolder)); folder == "fragments/" {
			name = strings.TrimSuffix(name, ".lua")
			scripts[scriptFolder+"alone/only_"+name+".lua"] = "-- requires " + name + "\n"
		}
	}
	for name, source := range scripts.assembled(t) {
		undeclared, err := globals(name, source)
		if err != nil {
			t.Error(err)
		}
		for _, g := range undeclared {
			t.Errorf("%s uses %q, which nothing that it requires declares", name, g)
		}
	}
}

// A test of the gate fails with every mutant of the library, and campaigns hunt a mutant of every kind of lock. Naive locks are not
// the library, so only campaigns can find them.
func TestEveryMutantIsHunted(t *testing.T) {
	for _, m := range All {
		if len(m.Tests) == 0 && m.Naive == "" {
			t.Errorf("no test finds %s", m.Name)
		}
		if len(m.Rules) == 0 && m.Naive != "" {
			t.Errorf("no campaign finds %s", m.Name)
		}
	}
	for _, kind := range campaign.Subjects {
		if !slices.ContainsFunc(All, func(m Mutant) bool {
			return len(m.Rules) > 0 && (m.Subject == kind || m.Subject == nil && kind == campaign.Mutex{})
		}) {
			t.Errorf("no mutant is hunted by campaigns of %s", kind.Name())
		}
	}
}

// A marker that no mutant uses would suggest that there is one.
func TestEveryPlaceHasItsMutant(t *testing.T) {
	places := places(t)
	if len(places) == 0 {
		t.Fatal("the library has no markers")
	}
	for _, m := range All {
		for _, e := range m.Edits {
			delete(places, e.Place)
		}
	}
	for name, where := range places {
		t.Errorf("%s: no mutant uses the marker %q", where, "mutants: "+name)
	}
}

// places returns overlay.Places. These tests read sources that they do not import, so the go command has to be told to run them
// again when the sources change.
func places(t *testing.T) map[string]string {
	t.Helper()
	expect.OK(t, inputs.In("../.."))
	return expect.Of(overlay.Places()).OK(t)
}

func declares(t *testing.T, folder, test string) bool {
	t.Helper()
	files := expect.Of(filepath.Glob(filepath.Join(folder, "*_test.go"))).OK(t)
	for _, file := range files {
		text := expect.Of(os.ReadFile(file)).OK(t)
		if strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// scripts are the texts of the library's Lua files, by name relative to its root.
type scripts map[string]string

const scriptFolder = "internal/script/"

func readScripts(t *testing.T) scripts {
	t.Helper()
	files, err := filepath.Glob("../../" + scriptFolder + "*/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	s := scripts{}
	for _, file := range files {
		text := expect.Of(os.ReadFile(file)).OK(t)
		s[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = string(text)
	}
	return s
}

// with returns the scripts with edited files, some of which may not be scripts.
func (s scripts) with(edited map[string]string) scripts {
	all := maps.Clone(s)
	for file, text := range edited {
		if path.Ext(file) == ".lua" {
			all[file] = text
		}
	}
	return all
}

// assembled returns the scripts as they are sent, by their names.
func (s scripts) assembled(t *testing.T) map[string]string {
	t.Helper()
	tree := fstest.MapFS{}
	for file, text := range s {
		tree[strings.TrimPrefix(file, scriptFolder)] = &fstest.MapFile{Data: []byte(text)}
	}
	sources := map[string]string{}
	for file := range tree {
		if path.Dir(file) != "fragments" {
			sources[strings.TrimSuffix(path.Base(file), ".lua")] = expect.Of(script.Assemble(tree, file)).OK(t)
		}
	}
	return sources
}

// provided are the names that servers give to scripts.
var provided = strings.Fields("redis KEYS ARGV string table math tonumber tostring type pcall error ipairs unpack")

// globals compiles a script, and returns the names that neither it nor the server declares.
func globals(name, source string) ([]string, error) {
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var names []string
	all := []*lua.FunctionProto{proto}
	for len(all) > 0 {
		p := all[0]
		all = append(all[1:], p.FunctionPrototypes...)
		for _, code := range p.Code {
			if op := int(code >> 26); op == lua.OP_GETGLOBAL || op == lua.OP_SETGLOBAL {
				if name := p.Constants[code&0x3ffff].String(); !slices.Contains(provided, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names, nil
}

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
		text := expect.Of(os.ReadFile(filepath.Join("../..", file))).OK(t)
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
