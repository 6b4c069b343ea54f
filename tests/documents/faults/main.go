// Command faults FILE writes the table of faults that tests survive, docs/faults.md. It takes them from paragraphs of the
// tests' doc comments, or of comments in testscript files:
//
//	// Fault: What happens. What the lock does.
//	// Bug: What such locks have done.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:generate go run . ../../../docs/faults.md

// root is the repository's, from this folder, in which go generate and go test run.
const root = "../../.."

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: faults FILE")
	}
	text, err := page(root)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

// entry is a paragraph of a comment.
type entry struct {
	file, test string // the file from the root
	kind, text string // kind is fault or bug
}

const (
	fault = "Fault: "
	bug   = "Bug: "
)

// page returns docs/faults.md.
func page(root string) (string, error) {
	var all []entry
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && name != root {
				return fs.SkipDir
			}
			return nil
		}
		read := fromTests
		switch {
		case strings.HasSuffix(name, ".txtar"):
			read = fromScript
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		found, err := read(filepath.ToSlash(file), text)
		all = append(all, found...)
		return err
	})
	if err != nil {
		return "", err
	}
	return render(all)
}

// fromTests returns what the doc comments of a file's tests say.
func fromTests(file string, text []byte) (all []entry, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	tests := map[*ast.CommentGroup]string{}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Doc != nil && strings.HasPrefix(f.Name.Name, "Test") {
			tests[f.Doc] = f.Name.Name
		}
	}
	for _, c := range parsed.Comments {
		for paragraph := range strings.SplitSeq(c.Text(), "\n\n") {
			e, ok := newEntry(file, tests[c], paragraph)
			if !ok {
				continue
			}
			if e.test == "" {
				return nil, fmt.Errorf("%s: %q is not in the doc comment of a test", file, e.text)
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// fromScript returns what the comments of a testscript say.
func fromScript(file string, text []byte) (all []entry, _ error) {
	for line := range strings.Lines(string(text)) {
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			if e, ok := newEntry(file, path.Base(file), comment); ok {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

func newEntry(file, test, paragraph string) (entry, bool) {
	for _, kind := range []string{fault, bug} {
		if text, ok := strings.CutPrefix(paragraph, kind); ok {
			return entry{file, test, kind, strings.Join(strings.Fields(text), " ")}, true
		}
	}
	return entry{}, false
}

// render returns the page of all entries, which come in the order of their files.
func render(all []entry) (string, error) {
	var faults, bugs strings.Builder
	folder := ""
	for _, e := range all {
		test := fmt.Sprintf("[%s](../%s)", e.test, e.file)
		if strings.Contains(e.text, "|") || !strings.HasSuffix(e.text, ".") {
			return "", fmt.Errorf("%s: %q is to end with a full stop, and to have no |", e.test, e.text)
		}
		if e.kind == bug {
			fmt.Fprintf(&bugs, "| %s | %s |\n", strings.TrimSuffix(e.text, "."), test)
			continue
		}
		happens, outcome, ok := strings.Cut(e.text, ". ")
		if !ok {
			return "", fmt.Errorf("%s: %q does not say what the lock does", e.test, e.text)
		}
		if of := strings.TrimSuffix(path.Dir(e.file), "/testdata"); of != folder {
			folder = of
			heading := folder
			if folder == "." {
				heading = "the root package"
			}
			fmt.Fprintf(&faults, "\n## %s\n\n| fault | outcome | test |\n|---|---|---|\n", heading)
		}
		fmt.Fprintf(&faults, "| %s | %s | %s |\n", happens, strings.TrimSuffix(outcome, "."), test)
	}
	return head + faults.String() + bugHead + bugs.String(), nil
}

const (
	head = `# Faults

What goes wrong in the tests, and what the locks do then, by the folder of the test. [GUARANTEES](GUARANTEES.md) says what
is promised, and [RELIABILITY](RELIABILITY.md) how long random faults ran.

This page is made from the tests' comments: ` + "`go generate ./tests/documents/faults`" + ` writes it anew.
`
	bugHead = `
## Bugs that such locks have had

Each has a test that fails if this library has it.

| bug | test |
|---|---|
`
)
