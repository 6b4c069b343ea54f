// Ratchet measures the size of the repository, and how many functions and files an operation of a lock passes. It fails if a figure
// exceeds its record in records.txt, so that nobody has to remember to look. "make check" runs it.
//
//	go run ./cmd/ratchet          compare
//	go run ./cmd/ratchet -lower   write the figures that have become smaller into records.txt
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const records = "cmd/ratchet/records.txt"

func main() {
	lower := flag.Bool("lower", false, "write the figures that have become smaller into "+records)
	flag.Parse()
	if err := run(*lower); err != nil {
		fmt.Fprintln(os.Stderr, "ratchet:", err)
		os.Exit(1)
	}
}

// run is called in the module tests.
func run(lower bool) error {
	text, err := os.ReadFile(records)
	if err != nil {
		return err
	}
	kept, err := parse(string(text))
	if err != nil {
		return err
	}
	figures, walked, err := measure("..", kept.order)
	if err != nil {
		return err
	}
	// A busy machine may take a walk past a function that it does not need otherwise, or end it early.
	if lower {
		for range 2 {
			if _, err := walks(figures, func(a, b int) int { return max(a, b) }); err != nil {
				return err
			}
		}
		fmt.Print(kept.table(figures))
		return os.WriteFile(records, []byte(kept.lowered(figures)), 0o644)
	}
	for tries := 0; tries < 4 && len(kept.broken(figures)) > 0; tries++ {
		if _, err := walks(figures, func(a, b int) int { return min(a, b) }); err != nil {
			return err
		}
	}
	fmt.Print(kept.table(figures))
	architecture, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		return err
	}
	_, told, _ := strings.Cut(string(architecture), "## The story of one acquire")
	told, _, _ = strings.Cut(told, "\nOther locks")
	return errors.Join(append(kept.broken(figures), story(told, walked)...)...)
}

// record is what records.txt says of a figure.
type record struct {
	figure string
	value  int
	lowest int    // that it ever was
	why    string // it is higher now
}

func (r record) String() string {
	return strings.TrimSpace(fmt.Sprintf("%-40s %7d %7d %s", r.figure, r.value, r.lowest, r.why))
}

// book is records.txt.
type book struct {
	records []record
	order   []string // files of internal/engine, the lowest layer first
	rest    string   // as it is written: comments and the order
}

var row = regexp.MustCompile(`^(\S+) +(\d+) +(\d+)(?: +(\S.*))?$`)

func parse(text string) (b book, err error) {
	for s := range strings.Lines(text) {
		words := strings.Fields(s)
		switch m := row.FindStringSubmatch(strings.TrimSpace(s)); {
		case len(words) == 0 || words[0] == "#":
			b.rest += s
		case words[0] == "order":
			b.rest += s
			b.order = append(b.order, words[1:]...)
		case m == nil:
			return b, fmt.Errorf("%s: %q: want a figure, its record, the lowest that it ever was, and why it is higher now if it is", records, s)
		default:
			value, _ := strconv.Atoi(m[2])
			lowest, _ := strconv.Atoi(m[3])
			if value < lowest || value > lowest && m[4] == "" {
				return b, fmt.Errorf("%s: the record of %s is %d, and the lowest that it ever was is %d: say why at the end of the line", records, m[1], value, lowest)
			}
			b.records = append(b.records, record{m[1], value, lowest, m[4]})
		}
	}
	return b, nil
}

// broken returns an error for each figure that is larger than its record, or has none, and for each record without a figure.
func (b book) broken(figures map[string]int) (all []error) {
	for _, r := range b.records {
		switch now, is := figures[r.figure]; {
		case !is:
			all = append(all, fmt.Errorf("%s has a record, but nothing measures it", r.figure))
		case now > r.value:
			r.value, r.why = now, "WHY"
			all = append(all, fmt.Errorf("%s has grown to %d. Take something away, or write into tests/%s:\n%s", r.figure, now, records, r))
		}
	}
	for _, figure := range slices.Sorted(maps.Keys(figures)) {
		if !slices.ContainsFunc(b.records, func(r record) bool { return r.figure == figure }) {
			all = append(all, fmt.Errorf("%s is %d, and has no record in tests/%s", figure, figures[figure], records))
		}
	}
	return all
}

func (b book) table(figures map[string]int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-40s %7s %7s\n", "", "now", "record")
	for _, r := range b.records {
		fmt.Fprintf(&out, "%-40s %7d %7d\n", r.figure, figures[r.figure], r.value)
	}
	return out.String()
}

// lowered returns records.txt with the figures that are smaller than their records.
func (b book) lowered(figures map[string]int) string {
	out := b.rest
	for _, r := range b.records {
		if now, is := figures[r.figure]; is && now < r.value {
			r.value, r.lowest = now, min(now, r.lowest)
			if r.value == r.lowest {
				r.why = ""
			}
		}
		out += r.String() + "\n"
	}
	return out
}

// measure returns all figures of the repository at root, and what walks.sh printed.
func measure(root string, order []string) (figures map[string]int, walked string, err error) {
	figures = map[string]int{}
	if err := lines(root, figures); err != nil {
		return nil, "", err
	}
	doc := exec.Command("go", "doc", "-all", ".")
	doc.Dir = root
	text, err := doc.Output()
	if err != nil {
		return nil, "", fmt.Errorf("go doc: %w", err)
	}
	figures["go-doc"] = bytes.Count(text, []byte("\n"))
	figures["exported-types"] = len(regexp.MustCompile(`(?m)^type `).FindAll(text, -1))
	if figures["engine-upwards"], err = upwards(root, order); err != nil {
		return nil, "", err
	}
	walked, err = walks(figures, nil)
	return figures, walked, err
}

// lines counts what is written.
func lines(root string, figures map[string]int) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ = filepath.Rel(root, path)
		path = filepath.ToSlash(path)
		if d.IsDir() {
			if path != "." && strings.HasPrefix(d.Name(), ".") || path == "dist" || path == "docs/scripts" { // not written, or written by go generate
				return fs.SkipDir
			}
			return nil
		}
		if ok, _ := filepath.Match("docs/decisions/0*.md", path); ok {
			figures["decisions"]++
		}
		var figure []string
		switch isTest := strings.HasPrefix(path, "tests/") || strings.HasSuffix(path, "_test.go"); {
		case strings.HasPrefix(path, "examples/"):
			return nil
		case filepath.Ext(path) == ".go" && isTest:
			figure = []string{"go-tests"}
		case filepath.Ext(path) == ".go" && (strings.HasPrefix(path, "cmd/holdfast/bench/") || strings.HasPrefix(path, "cmd/holdfast/conformance/")):
			figure = []string{"go", "go-programs"}
		case filepath.Ext(path) == ".go" && strings.HasPrefix(path, "cmd/"):
			figure = []string{"go", "go-command"}
		case filepath.Ext(path) == ".go":
			figure = []string{"go", "go-library"}
		case filepath.Ext(path) == ".lua" && !isTest:
			figure = []string{"lua"}
		default:
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		for _, f := range figure {
			figures[f] += bytes.Count(text, []byte("\n"))
		}
		return err
	})
}

// walks measures the walks, and returns what walks.sh printed. If a walk was measured before, pick chooses between that figure and the new
// one.
func walks(figures map[string]int, pick func(a, b int) int) (string, error) {
	out, err := exec.Command("./walks.sh", "-v").Output()
	if err != nil {
		return "", fmt.Errorf("walks.sh: %w", err)
	}
	walk := regexp.MustCompile(`^(\S.*?) +(\d+) +(\d+) +\d+ +\d+$`)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		m := walk.FindStringSubmatch(lines.Text())
		if m == nil {
			continue // the head
		}
		for i, what := range []string{"functions", "files"} {
			figure := strings.ReplaceAll(m[1], " ", "-") + "-" + what
			n, _ := strconv.Atoi(m[2+i])
			if had, is := figures[figure]; is {
				n = pick(had, n)
			}
			figures[figure] = n
		}
	}
	return string(out), nil
}

// story checks that a section of ARCHITECTURE tells the walk of a free acquire: that each function in it, written
// `package.Type.method` or `package.function`, is passed. walked is what "walks.sh -v" prints.
func story(section, walked string) (wrong []error) {
	passed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^passed (\S+)/\S+\s+\*?(\S+)`).FindAllStringSubmatch(walked, -1) {
		passed[path.Base(m[1])+"."+m[2]] = true
	}
	for _, m := range regexp.MustCompile("`(\\w+(?:\\.\\w+)+)`").FindAllStringSubmatch(section, -1) {
		if !passed[m[1]] {
			wrong = append(wrong, fmt.Errorf("ARCHITECTURE says that an acquire passes %s; it does not", m[1]))
		}
	}
	return wrong
}

// upwards returns how many pairs of files of internal/engine there are of which the lower one in that order uses something that the
// other declares.
func upwards(root string, order []string) (int, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./internal/engine")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	for s := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(s), " ")
		exports[path] = export
	}
	paths, err := filepath.Glob(filepath.Join(root, "internal/engine/*.go"))
	if err != nil {
		return 0, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return 0, err
		}
		files = append(files, file)
		if name := filepath.Base(path); !slices.Contains(order, name) {
			return 0, fmt.Errorf("internal/engine/%s has no place in the order of tests/%s", name, records)
		}
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}).Check("engine", fset, files, info)
	if err != nil {
		return 0, err
	}
	level := func(pos token.Pos) int { return slices.Index(order, filepath.Base(fset.Position(pos).Filename)) }
	pairs := map[[2]int]bool{}
	for use, what := range info.Uses {
		if what.Pkg() == pkg && level(use.Pos()) < level(what.Pos()) {
			pairs[[2]int{level(use.Pos()), level(what.Pos())}] = true
		}
	}
	return len(pairs), nil
}
