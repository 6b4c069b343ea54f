package script

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// fragmentDir is the folder of the code that several scripts need.
const fragmentDir = "fragments"

// Assemble returns the sources of the scripts in a tree of Lua files, by their names. FOLDER/NAME.lua is the
// script NAME; fragments/NAME.lua is a fragment, which a file asks for by a line
//
//	-- requires NAME
//
// A script begins with its fragments in the order of these lines, each of them once, and after those that it
// requires itself. Comments are left out, because a server that has lost its script cache is sent the whole source.
//
// It is an error if a fragment does not exist, requires itself, directly or through others, or is required by no
// script.
func Assemble(tree fs.FS) (map[string]string, error) {
	l, err := read(tree)
	if err != nil {
		return nil, err
	}
	sources, used := map[string]string{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.scripts)) {
		a := assembly{library: l, done: map[string]bool{}}
		if err := a.add(l.scripts[name]); err != nil {
			return nil, err
		}
		sources[name] = a.source.String()
		maps.Copy(used, a.done)
	}
	for _, name := range slices.Sorted(maps.Keys(l.fragments)) {
		if !used[name] {
			return nil, fmt.Errorf("%s: no script requires it", l.fragments[name].path)
		}
	}
	return sources, nil
}

// file is a Lua file: its code, and the fragments that it requires.
type file struct {
	path     string
	code     string
	requires []string
}

// library is a tree of files, by their names without folder and suffix.
type library struct {
	scripts, fragments map[string]file
}

func read(tree fs.FS) (library, error) {
	l := library{map[string]file{}, map[string]file{}}
	return l, fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".lua" {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parse(name, string(text))
		if err != nil {
			return err
		}
		files, key := l.scripts, strings.TrimSuffix(path.Base(name), ".lua")
		if path.Dir(name) == fragmentDir {
			files = l.fragments
		}
		if other, ok := files[key]; ok {
			return fmt.Errorf("%s: %s has the same name", name, other.path)
		}
		files[key] = f
		return nil
	})
}

var (
	requirement = regexp.MustCompile(`^-- requires ([a-z0-9_]+)$`)
	// Any other comment like this would be dropped, and its requirement with it.
	likeRequirement = regexp.MustCompile(`(?i)^\s*--\s*(requires?|includes?)\b`)
)

func parse(name, text string) (file, error) {
	f := file{path: name}
	var code strings.Builder
	code.Grow(len(text))
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		comment, ok := strings.CutPrefix(bare, "--")
		if !ok {
			if bare != "" {
				code.WriteString(line)
			}
			continue
		}
		// Every program parses all scripts when it starts. Matching every line would take most of that time.
		if comment = strings.TrimSpace(comment); comment == "" || !strings.ContainsRune("rRiI", rune(comment[0])) {
			continue
		}
		line = strings.TrimRight(line, "\n")
		if m := requirement.FindStringSubmatch(line); m != nil {
			f.requires = append(f.requires, m[1])
		} else if likeRequirement.MatchString(line) {
			return f, fmt.Errorf("%s: %q is not a line \"-- requires NAME\"", name, line)
		}
	}
	f.code = code.String()
	return f, nil
}

// assembly is a script that is being put together.
type assembly struct {
	library
	source strings.Builder
	done   map[string]bool // the fragments that source has
	within []string        // the fragments whose requirements are being added
}

func (a *assembly) add(f file) error {
	for _, name := range f.requires {
		if a.done[name] {
			continue
		}
		if slices.Contains(a.within, name) {
			return fmt.Errorf("%s: it requires itself: %s", a.fragments[name].path, strings.Join(append(a.within, name), " -> "))
		}
		fragment, ok := a.fragments[name]
		if !ok {
			return fmt.Errorf("%s: it requires %q, but %s has no such file", f.path, name, fragmentDir)
		}
		a.within = append(a.within, name)
		if err := a.add(fragment); err != nil {
			return err
		}
		a.within = a.within[:len(a.within)-1]
		a.done[name] = true
	}
	a.source.WriteString(f.code)
	return nil
}
