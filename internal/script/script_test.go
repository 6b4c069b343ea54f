package script

import (
	"crypto/sha1"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var scripts = All()

// text returns a file as it is in the repository.
func text(t *testing.T, file string) string {
	t.Helper()
	b, err := files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// header returns the comment with which a file begins, without its dashes.
func header(t *testing.T, file string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text(t, file)) {
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
		head := header(t, s.Name+".lua")
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
		if stated, used := highest(numbered, args), highest(`ARGV`+numbered, s.Source); stated != used {
			t.Errorf("%s: the header states %d ARGV, the script uses %d", s.Name, stated, used)
		}
		if stated, used := highest(numbered, keys), highest(`KEYS`+numbered, s.Source); stated < used {
			t.Errorf("%s: the header states %d KEYS, the script uses %d", s.Name, stated, used)
		}
	}
}

func TestHeadersSayWhatScriptsReturn(t *testing.T) {
	for _, s := range scripts {
		_, returns, _ := strings.Cut(header(t, s.Name+".lua"), "\n Returns ")
		for _, m := range regexp.MustCompile(`return \(?'([a-z]+) ?'`).FindAllStringSubmatch(s.Source, -1) {
			if !strings.Contains(returns, "'"+m[1]+" ") {
				t.Errorf("%s returns %q, which its header does not state", s.Name, m[1])
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
			t.Errorf("%s is twice there, or empty", s.Name)
		}
		names[s.Name] = true
	}
}

// Every file is a script, or a fragment that one includes; each script has a fragment's
// code once, and no comments.
func TestIncludesResolve(t *testing.T) {
	all, err := fs.Glob(files, "*.lua")
	if err != nil || len(all) == 0 {
		t.Fatalf("%q, %v", all, err)
	}
	include := regexp.MustCompile(`(?m)^\s*-- include (\S+)$`)
	used := map[string]bool{}
	for _, s := range scripts {
		file := s.Name + ".lua"
		used[file] = true
		including := []string{file}
		for len(including) > 0 {
			next := including[0]
			including = including[1:]
			for _, m := range include.FindAllStringSubmatch(text(t, next), -1) {
				fragment := m[1]
				if !slices.Contains(all, fragment) {
					t.Errorf("%s includes %s, which is not there", next, fragment)
					continue
				}
				used[fragment] = true
				including = append(including, fragment)
				if n := strings.Count(s.Source, assemble(fragment)); n != 1 {
					t.Errorf("%s has the code of %s %d times", file, fragment, n)
				}
			}
		}
		for line := range strings.Lines(s.Source) {
			if l := strings.TrimSpace(line); l == "" || strings.HasPrefix(l, "--") {
				t.Errorf("%s is sent with the line %q", file, line)
			}
		}
	}
	for _, file := range all {
		if !used[file] {
			t.Errorf("nothing uses %s", file)
		}
	}
}
