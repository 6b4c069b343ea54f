package script

import (
	"crypto/sha1"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

var scripts = All()

// header returns the comment with which a script's file begins, without its dashes.
func header(t *testing.T, name string) string {
	t.Helper()
	paths, err := fs.Glob(files, "*/"+name+".lua")
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s has the files %q, %v", name, paths, err)
	}
	text, err := files.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		comment, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		b.WriteString(comment)
	}
	return b.String()
}

// highest returns the greatest of the numbers that a pattern's group matches.
func highest(pattern, s string) int {
	most := 0
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(s, -1) {
		n, _ := strconv.Atoi(m[1]) // digits, say the patterns
		most = max(most, n)
	}
	return most
}

func TestHeadersSayWhatScriptsTake(t *testing.T) {
	const numbered = `\[(\d+)\]`
	for _, s := range scripts {
		head := header(t, s.Name)
		if !strings.HasPrefix(head, " "+s.Name+".lua: ") {
			t.Errorf("%s begins with %.40q", s.Name, head)
		}
		before, rest, hasKeys := strings.Cut(head, "\n KEYS ")
		keys, rest, hasArgs := strings.Cut(rest, "\n ARGV ")
		args, returns, hasReturns := strings.Cut(rest, "\n Returns ")
		if before == "" || !hasKeys || !hasArgs || !hasReturns || strings.TrimSpace(returns) == "" {
			t.Errorf("%s: the header lacks KEYS, ARGV or Returns, or has them in another order", s.Name)
			continue
		}
		// A script may leave an argument that can be anything to the family's other scripts.
		needed := highest(numbered, regexp.MustCompile(`\[\d+\] any (token|text)`).ReplaceAllString(args, ""))
		if stated, used := highest(numbered, args), highest(`ARGV`+numbered, s.Source); used > stated || used < needed {
			t.Errorf("%s: the header states %d ARGV, the script uses %d", s.Name, stated, used)
		}
		if stated, used := highest(numbered, keys), highest(`KEYS`+numbered, s.Source); stated < used {
			t.Errorf("%s: the header states %d KEYS, the script uses %d", s.Name, stated, used)
		}
	}
}

// enclosing returns the name of the function in which a part of a script ends; "" if it is in none.
func enclosing(source string) string {
	name, _, _ := strings.Cut(source[strings.LastIndex(source, "local function ")+1:], "(")
	return strings.TrimPrefix(name, "ocal function ")
}

func TestHeadersSayWhatScriptsReturn(t *testing.T) {
	for _, s := range scripts {
		_, returns, _ := strings.Cut(header(t, s.Name), "\n Returns ")
		for _, m := range regexp.MustCompile(`return \(?'([a-z]+) ?' \.\.|refuse\('([a-z]+)'`).FindAllStringSubmatchIndex(s.Source, -1) {
			word, function := s.Source[max(m[2], m[4]):max(m[3], m[5])], enclosing(s.Source[:m[0]])
			calls := strings.Count(s.Source, function+"(") - 1
			if word == "error" || calls == 0 && function != "main" {
				continue // every script may reply error (answer.lua), and none calls all functions of its fragments
			}
			if !strings.Contains(returns, "'"+word+" ") {
				t.Errorf("%s returns %q, which its header does not state", s.Name, word)
			}
		}
	}
}

func TestDigestsAreThoseOfTheSources(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scripts {
		if want := fmt.Sprintf("%x", sha1.Sum([]byte(s.Source))); s.SHA1 != want {
			t.Errorf("%s has the digest %s, its source %s", s.Name, s.SHA1, want)
		}
		if names[s.Name] || s.Source == "" {
			t.Errorf("%s is in All twice, or empty", s.Name)
		}
		names[s.Name] = true
	}
}

func TestEveryFileIsAScriptOfTheLibrary(t *testing.T) {
	known := map[string]bool{}
	for _, s := range scripts {
		known[s.Name] = true
	}
	paths, err := fs.Glob(files, "*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range paths {
		if name := strings.TrimSuffix(path.Base(file), ".lua"); path.Dir(file) != "fragments" && !known[name] {
			t.Errorf("no variable has the script %s", name)
		}
	}
}

func TestScriptsAreSentWithoutComments(t *testing.T) {
	for _, s := range scripts {
		for line := range strings.Lines(s.Source) {
			if l := strings.TrimSpace(line); l == "" || strings.HasPrefix(l, "--") {
				t.Errorf("%s is sent with the line %q", s.Name, line)
			}
		}
	}
}

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
