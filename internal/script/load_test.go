package script

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// tree makes a tree of files, given in pairs of path and text.
func tree(pairs ...string) fstest.MapFS {
	t := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		t[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return t
}

func TestFragmentsComeBeforeWhatRequiresThem(t *testing.T) {
	files := tree(
		"x/one.lua", "-- one.lua: a script.\n\n-- requires c, a\n\nreturn 1\n",
		"y/two.lua", "-- requires b\nreturn 2\n",
		"y/three.lua", "return 3\n",
		"fragments/a.lua", "-- a.lua: a fragment.\n--\n-- requires b\n-- requires c\n\nlocal a = b + c\n",
		"fragments/b.lua", "-- requires d\nlocal b = d\n",
		"fragments/c.lua", "-- requires d\n  -- why\n\nlocal c = d -- said here\n",
		"fragments/d.lua", "local d\n",
	)
	for file, want := range map[string]string{
		"x/one.lua":   "local d\nlocal c = d -- said here\nlocal b = d\nlocal a = b + c\nreturn 1\n",
		"y/two.lua":   "local d\nlocal b = d\nreturn 2\n",
		"y/three.lua": "return 3\n",
	} {
		if got, err := Assemble(files, file); err != nil || got != want {
			t.Errorf("%s is\n%s\n%v; want\n%s", file, got, err, want)
		}
	}
}

func TestAMissingFragmentIsNamed(t *testing.T) {
	_, err := Assemble(tree("x/s.lua", "-- requires a\n", "fragments/a.lua", "-- requires nowhere\n"), "x/s.lua")
	if want := `x/s.lua requires "a": fragments/a.lua requires "nowhere"`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// A misspelled requirement would pass for a comment.
func TestRequirementsAreInOneForm(t *testing.T) {
	paths, err := fs.Glob(files, "*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, file := range paths {
		if name, is := strings.CutPrefix(file, "fragments/"); is {
			unused[strings.TrimSuffix(name, ".lua")] = true
		}
	}
	like := regexp.MustCompile(`(?i)^\s*--\s*(require|include)s?\b`)
	for _, file := range paths {
		text, err := files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			names, is := strings.CutPrefix(line, "-- requires ")
			if !is && like.MatchString(line) {
				t.Errorf("%s: %q is not a line \"-- requires NAME, ANOTHER\"", file, line)
			}
			for name := range strings.SplitSeq(names, ", ") {
				delete(unused, name)
			}
		}
	}
	for name := range unused {
		t.Errorf("no script requires the fragment %s", name)
	}
}
