package script

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
)

// fragmentDir is the folder of the code that several scripts share.
const fragmentDir = "fragments"

// Assemble returns the sources of the scripts in a tree of Lua files, by their names. FOLDER/NAME.lua is the script NAME;
// fragments/NAME.lua is a fragment, which a file includes by a line
//
//	-- requires NAME, ANOTHER
//
// A script begins with its fragments in the order of these names, each once, and after the fragments that it requires itself. Comments are
// left out, because a server that has lost its script cache is sent the whole source.
//
// It is an error if a fragment does not exist, requires itself, directly or through others, or is required by no script.
func Assemble(tree fs.FS) (map[string]string, error) {
	all, err := fs.Glob(tree, "*/*.lua")
	if err != nil {
		return nil, err
	}
	sources, paths, used := map[string]string{}, map[string]string{}, map[string]bool{}
	for _, file := range all {
		if path.Dir(file) == fragmentDir {
			continue
		}
		name := strings.TrimSuffix(path.Base(file), ".lua")
		if other, ok := paths[name]; ok {
			return nil, fmt.Errorf("%s: %s has the same name", file, other)
		}
		paths[name] = file
		a, err := assemble(tree, file)
		if err != nil {
			return nil, err
		}
		sources[name] = a.source.String()
		maps.Copy(used, a.done)
	}
	for _, file := range all {
		if path.Dir(file) == fragmentDir && !used[strings.TrimSuffix(path.Base(file), ".lua")] {
			return nil, fmt.Errorf("%s: no script requires it", file)
		}
	}
	return sources, nil
}

// parse returns the code of a Lua file, and the names of the fragments that it requires.
func parse(file, text string) (code string, requires []string, err error) {
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		comment, ok := strings.CutPrefix(bare, "--")
		switch {
		case ok && likeRequirement(comment):
			line = strings.TrimRight(line, "\n")
			names, ok := strings.CutPrefix(line, "-- requires ")
			for name := range strings.SplitSeq(names, ", ") {
				if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
					return "", nil, fmt.Errorf("%s: %q is not a line \"-- requires NAME, ANOTHER\"", file, line)
				}
				requires = append(requires, name)
			}
		case !ok && bare != "":
			b.WriteString(line)
		}
	}
	return b.String(), requires, nil
}

// likeRequirement reports whether a comment is a requirement, or may be a misspelled one, which must not be dropped.
func likeRequirement(comment string) bool {
	comment = strings.TrimSpace(comment)
	end := strings.IndexFunc(comment, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		return false
	}
	switch strings.ToLower(comment[:end]) {
	case "require", "requires", "include", "includes":
		return true
	}
	return false
}

// assembly is a script that is being assembled.
type assembly struct {
	tree   fs.FS
	source strings.Builder
	done   map[string]bool // the fragments in source
	within []string        // the fragments whose requirements are being added, outermost first
}

// assemble assembles the script in a file. It reads only that file and those that it requires.
func assemble(tree fs.FS, file string) (*assembly, error) {
	a := &assembly{tree: tree, done: map[string]bool{}}
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return nil, err
	}
	return a, a.add(file, string(text))
}

func (a *assembly) add(file, text string) error {
	code, requires, err := parse(file, text)
	if err != nil {
		return err
	}
	for _, name := range requires {
		if a.done[name] {
			continue
		}
		if slices.Contains(a.within, name) {
			return fmt.Errorf("%s: it requires itself: %s", fragmentPath(name), strings.Join(append(a.within, name), " -> "))
		}
		fragment, err := fs.ReadFile(a.tree, fragmentPath(name))
		if err != nil {
			return fmt.Errorf("%s: it requires %q, but %s has no such file", file, name, fragmentDir)
		}
		a.within = append(a.within, name)
		if err := a.add(fragmentPath(name), string(fragment)); err != nil {
			return err
		}
		a.within = a.within[:len(a.within)-1]
		a.done[name] = true
	}
	a.source.WriteString(code)
	return nil
}

func fragmentPath(name string) string { return fragmentDir + "/" + name + ".lua" }
