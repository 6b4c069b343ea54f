package mutants

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// The library still has the places that each mutant changes, and what it puts there still fits:
// known at once, not first when it is hunted. A script that fails for a misspelled name would be
// found out, too, for the wrong reason.
func TestEveryMutantCanBeMade(t *testing.T) {
	if _, err := overlay.Places(); err != nil {
		t.Fatal(err)
	}
	scripts := readScripts(t)
	known := map[string]bool{}
	for _, name := range scripts.names() {
		globals, err := scripts.globals(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range globals {
			known[g] = true
		}
	}
	builds := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			edited, err := overlay.Files(m.Edits...)
			if err != nil {
				t.Fatal(err)
			}
			mutated := scripts.with(edited)
			for _, name := range mutated.names() {
				if mutated.whole(name) == scripts.whole(name) {
					continue
				}
				globals, err := mutated.globals(name)
				if err != nil {
					t.Error(err)
				}
				for _, g := range globals {
					if !known[g] {
						t.Errorf("%s has no %q where the mutant needs it", name, g)
					}
				}
			}
			if packages := packagesOf(edited); len(packages) > 0 {
				builds <- struct{}{}
				defer func() { <-builds }()
				list, err := overlay.Write(t.TempDir(), m.Edits...)
				if err != nil {
					t.Fatal(err)
				}
				// Without optimizations it takes two thirds of the time.
				args := append([]string{"build", "-gcflags=-N -l", "-overlay", list}, packages...)
				if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
					t.Errorf("go build: %v\n%s", err, out)
				}
			}
			for _, test := range m.Tests {
				if !declares(t, filepath.Join("..", test.Package), test.Name) {
					t.Errorf("tests/%s has no %s", test.Package, test.Name)
				}
			}
		})
	}
}

// A marker that no mutant uses would be taken for one.
func TestEveryPlaceHasItsMutant(t *testing.T) {
	places, err := overlay.Places()
	if err != nil {
		t.Fatal(err)
	}
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

// packagesOf returns the import paths of the packages of Go files, which have names from the library's root.
func packagesOf(files map[string]string) (packages []string) {
	for file := range files {
		p := path.Join("github.com/holdfast-go/holdfast", path.Dir(file))
		if path.Ext(file) == ".go" && !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}
	return packages
}

func declares(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// scripts are the texts of the library's Lua files.
type scripts map[string]string

var include = regexp.MustCompile(`(?m)^-- include (\S+)$`)

func readScripts(t *testing.T) scripts {
	t.Helper()
	files, err := filepath.Glob("../../internal/script/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	s := scripts{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s[filepath.Base(file)] = string(text)
	}
	return s
}

// with returns the scripts with edited files, of which some may be no scripts.
func (s scripts) with(edited map[string]string) scripts {
	all := scripts{}
	for name, text := range s {
		all[name] = text
	}
	for file, text := range edited {
		if path.Ext(file) == ".lua" {
			all[path.Base(file)] = text
		}
	}
	return all
}

// names returns those that are not fragments of others.
func (s scripts) names() (names []string) {
	fragments := map[string]bool{}
	for _, text := range s {
		for _, m := range include.FindAllStringSubmatch(text, -1) {
			fragments[m[1]] = true
		}
	}
	for name := range s {
		if !fragments[name] {
			names = append(names, name)
		}
	}
	return names
}

// whole returns a script's text with what it includes.
func (s scripts) whole(name string) string {
	return include.ReplaceAllStringFunc(s[name], func(line string) string {
		return s.whole(strings.TrimPrefix(line, "-- include "))
	})
}

// globals compiles a script, and returns the names that are not declared in it.
func (s scripts) globals(name string) ([]string, error) {
	chunk, err := parse.Parse(strings.NewReader(s.whole(name)), name)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var globals []string
	all := []*lua.FunctionProto{proto}
	for len(all) > 0 {
		p := all[0]
		all = append(all[1:], p.FunctionPrototypes...)
		for _, code := range p.Code {
			if op := int(code >> 26); op == lua.OP_GETGLOBAL || op == lua.OP_SETGLOBAL {
				globals = append(globals, p.Constants[code&0x3ffff].String())
			}
		}
	}
	return globals, nil
}
