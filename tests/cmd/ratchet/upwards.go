package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

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
