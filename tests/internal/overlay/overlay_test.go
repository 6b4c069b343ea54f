package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

const goFile = "package a\n\nfunc a(x int) int {\n\t// Why.\n\t// mutants: bound\n\tif x > 1 {\n\t\t// mutants: sum\n\t\tx = x + 1\n\t}\n\treturn x\n}\n"

// tree makes a library of the given files, in pairs of name and text.
func tree(t *testing.T, pairs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(pairs); i += 2 {
		path := filepath.Join(dir, filepath.FromSlash(pairs[i]))
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.OK(t, os.WriteFile(path, []byte(pairs[i+1]), 0o600))
	}
	return dir
}

func TestWrongEditsAndMarkersAreRefused(t *testing.T) {
	const end = "package b\n\nfunc b() {\n"
	sound := Line("bound", "if true {")
	for _, test := range []struct {
		about, file, text string
		edit              Edit
		want              []string // in the error
	}{
		{"no such place", "", "", Line("limit", "if true {"), []string{"no line", "mutants: limit"}},
		{"no such part", "", "", Part("bound", "x < 1", "true"), []string{"a.go:6", `"bound"`, "0 of", "if x > 1 {"}},
		{"two such parts", "", "", Part("sum", "x", "y"), []string{"a.go:8", `"sum"`, "2 of", "x = x + 1"}},
		{"an empty part", "", "", Part("sum", "", "y"), []string{"a.go:8", `"sum"`}},
		{"the same line", "", "", Line("bound", "if x > 1 {"), []string{"a.go:6", `"bound"`, "as it is", "if x > 1 {"}},
		{"the same part", "", "", Part("sum", "x +", "x +"), []string{"a.go:8", `"sum"`, "as it is"}},

		{"twice in a file", "b.go", end + "\t// mutants: one\n\tb()\n\t// mutants: one\n\tb()\n}\n", sound, []string{`"one"`, "twice", "b.go:5", "b.go:7"}},
		{"twice, in both languages", "internal/b.lua", "-- mutants: bound\nreturn 1\n", sound, []string{`"bound"`, "twice", "a.go:6", "internal/b.lua:2"}},
		{"beside code", "b.go", end + "\tb() // mutants: one\n}\n", sound, []string{"b.go:4", "alone on its line", "b() // mutants: one"}},
		{"misspelled", "b.go", end + "\t// mutant: one\n\tb()\n}\n", sound, []string{"b.go:4", "// mutant: one"}},
		{"with capitals", "b.lua", "-- mutants: One\nreturn 1\n", sound, []string{"b.lua:1", "One"}},
		{"above nothing", "b.go", end + "\t// mutants: one\n\n\tb()\n}\n", sound, []string{"b.go:5", `"one"`, "no code"}},
		{"above a comment", "b.go", end + "\t// mutants: one\n\t// Why.\n\tb()\n}\n", sound, []string{`"one"`, "no code"}},
		{"above the end of a block", "b.go", end + "\t// mutants: one\n}\n", sound, []string{`"one"`, "no code"}},
		{"at the end of a file", "b.lua", "return 1\n-- mutants: one", sound, []string{`"one"`, "no code"}},
	} {
		library := []string{"a.go", goFile}
		if test.file != "" {
			library = append(library, test.file, test.text)
		}
		_, err := files(tree(t, library...), test.edit)
		for _, w := range test.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error %v lacks %q", test.about, err, w)
			}
		}
	}
}
