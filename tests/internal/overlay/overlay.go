// Package overlay has the go command build the library with some of its lines changed, and
// leaves the sources as they are: see "go help build", -overlay.
//
// The lines are named by comments in the sources. A marker
//
//	// mutants: release-owner
//
// or "-- mutants: release-owner" in Lua, alone on its line, names the line below it. It moves
// with the code, so that an Edit does not depend on where the code is, and hardly on its wording.
package overlay

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Edit changes a line of the library.
type Edit struct {
	Place string // the line's name
	kind  kind
	old   string
	text  string
}

type kind int

const (
	replacing kind = iota
	replacingPart
	inserting
)

// Line replaces the line at a place by text, which may be several lines, or "".
func Line(place, text string) Edit { return Edit{Place: place, kind: replacing, text: text} }

// Part replaces old, which occurs just once in the line at a place.
func Part(place, old, text string) Edit {
	return Edit{Place: place, kind: replacingPart, old: old, text: text}
}

// Insert puts text in front of the line at a place.
func Insert(place, text string) Edit { return Edit{Place: place, kind: inserting, text: text} }

// Places returns FILE:LINE of each place of the library, by name. FILE is relative to the library's root.
func Places() (map[string]string, error) {
	found, err := find(root())
	if err != nil {
		return nil, err
	}
	where := map[string]string{}
	for name, p := range found {
		where[name] = p.String()
	}
	return where, nil
}

// Files returns the texts of the files that the edits change, by file name relative to the library's root, with
// slashes.
func Files(edits ...Edit) (map[string]string, error) { return files(root(), edits...) }

// Write writes the edited files and the list for -overlay to dir, and returns the name of the list.
func Write(dir string, edits ...Edit) (list string, err error) {
	edited, err := Files(edits...)
	if err != nil {
		return "", err
	}
	return Replace(dir, root(), edited)
}

// Replace writes to dir what is to replace files, which are named relative to root, and returns the name of a list of them for the go
// command's -overlay.
func Replace(dir, root string, edited map[string]string) (list string, err error) {
	replace := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(edited)) { // each time the same names, for the build cache
		other := filepath.Join(dir, fmt.Sprint(len(replace), filepath.Ext(name)))
		if err := os.WriteFile(other, []byte(edited[name]), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = other
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

func files(root string, edits ...Edit) (map[string]string, error) {
	places, err := find(root)
	if err != nil {
		return nil, err
	}
	// An edit changes no line's index: text that it adds becomes part of an existing line.
	lines := map[string][]string{}
	for _, e := range edits {
		p, ok := places[e.Place]
		if !ok {
			return nil, fmt.Errorf("no line of the library has the marker %q", "mutants: "+e.Place)
		}
		if lines[p.file] == nil {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.file)))
			if err != nil {
				return nil, err
			}
			lines[p.file] = strings.Split(string(text), "\n")
		}
		marker, line := &lines[p.file][p.index], &lines[p.file][p.index+1]
		before := *marker + *line
		switch e.kind {
		case replacing:
			*line = indented(*line, e.text)
		case replacingPart:
			if n := strings.Count(*line, e.old); e.old == "" || n != 1 {
				return nil, fmt.Errorf("%s: the line at %q has %d of %q, not one: %s", p, e.Place, n, e.old, strings.TrimSpace(*line))
			}
			*line = strings.Replace(*line, e.old, e.text, 1)
		case inserting:
			*marker += "\n" + indented(*line, e.text)
		}
		if *marker+*line == before {
			return nil, fmt.Errorf("%s: an edit leaves the line at %q as it is: %s", p, e.Place, strings.TrimSpace(*line))
		}
	}
	edited := map[string]string{}
	for file, l := range lines {
		edited[file] = strings.Join(l, "\n")
	}
	return edited, nil
}

// indented returns text with the indentation of a line.
func indented(line, text string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	return indent + strings.ReplaceAll(text, "\n", "\n"+indent)
}

// place is the position of a marker.
type place struct {
	file  string // relative to the root, with slashes
	index int    // of the marker's line, from 0
}

// String returns the file and the number of the marked line.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.index+2) }

var (
	// A line that looks like a marker must be one, or a misspelled marker would go unnoticed.
	likeMarker = regexp.MustCompile(`(//|--)\s*mutants?:`)
	markers    = map[string]*regexp.Regexp{
		".go":  regexp.MustCompile(`^\s*// mutants: ([a-z0-9]+(?:-[a-z0-9]+)*)$`),
		".lua": regexp.MustCompile(`^\s*-- mutants: ([a-z0-9]+(?:-[a-z0-9]+)*)$`),
	}
	// A marker above such a line no longer marks any code.
	noCode = regexp.MustCompile(`^\s*(//.*|--.*|[\]})]*,?|end[\]})]*,?|else)$`)
)

// find finds the markers in the library's sources, except for tests.
func find(root string) (map[string]place, error) {
	found := map[string]place{}
	return found, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "tests"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		marker := markers[filepath.Ext(name)]
		if marker == nil || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if !strings.Contains(line, "mutant") || !likeMarker.MatchString(line) {
				continue
			}
			here := place{file: filepath.ToSlash(file), index: i}
			m := marker.FindStringSubmatch(line)
			if m == nil {
				return fmt.Errorf("%s:%d: a marker is alone on its line, and its name has small letters, digits and hyphens: %s", here.file, i+1, strings.TrimSpace(line))
			}
			if i+1 == len(lines) || noCode.MatchString(lines[i+1]) {
				return fmt.Errorf("%s: the marker %q has no code below it", here, m[1])
			}
			if other, ok := found[m[1]]; ok {
				return fmt.Errorf("the marker %q is there twice: %s and %s", m[1], other, here)
			}
			found[m[1]] = here
		}
		return nil
	})
}

// root returns the library's folder.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// repeating makes Go's runtime do the same every time in a bubble of testing/synctest, if GOMAXPROCS is 1 and the garbage
// collector runs only when the bubble says so. Each old text occurs once in its file.
var repeating = []struct{ file, old, text string }{
	// Random numbers of a bubble come from its own state: the order of select's cases, of timers that fire at once, of a
	// map's elements, and what math/rand draws without a source. seedBubble sets the state.
	{"runtime/synctest.go", "	id      uint64 // unique id\n", "	id      uint64 // unique id\n	drawn   uint64\n	chans   uint64 // made so far\n"},
	{"runtime/rand.go", "//go:linkname rand\nfunc rand() uint64 {\n", `//go:linkname rand
func rand() uint64 {
	if b := getg().bubble; b != nil {
		return b.draw()
	}
	return mrand()
}

//go:linkname seedBubble
func seedBubble(seed uint64) { getg().bubble.drawn = seed }

// draw is SplitMix64.
//
//go:nosplit
func (b *synctestBubble) draw() uint64 {
	b.drawn += 0x9e3779b97f4a7c15
	x := b.drawn
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

//go:nosplit
func mrand() uint64 {
`},
	{"runtime/select.go", "cheaprandn(uint32(norder + 1))\n", "cheaprandn(uint32(norder + 1))\n		if gp.bubble != nil {\n			j = uint32(gp.bubble.draw() % uint64(norder+1))\n		}\n"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = uint32(getg().bubble.draw())"},
	// sync.Pool and the scheduler draw other numbers of them under the race detector. They keep those of the thread.
	{"runtime/rand.go", "uint64(uint32(rand())) * uint64(n)", "uint64(uint32(mrand())) * uint64(n)"},
	{"runtime/proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = false"},
	// Hashes, on which the order of a map's elements depends, and the address at which the heap begins are the same in every process.
	{"runtime/rand.go", "globalRand.state.Init(*seed)", "*seed = [32]byte{1}\n	globalRand.state.Init(*seed)"},
	// A select that waits locks its channels and starts their timers in the order in which the channels were made, not by address.
	// Addresses depend on what was allocated outside the bubble. The order in which timers start decides which random numbers they get.
	{"runtime/chan.go", "	bubble   *synctestBubble\n", "	bubble   *synctestBubble\n	order    uint64 // in which the bubble's channels were made\n"},
	{"runtime/chan.go", "		c.bubble = b\n", "		b.chans++\n		c.bubble, c.order = b, b.chans\n"},
	{"runtime/select.go", "	return uintptr(unsafe.Pointer(c))\n", "	if c.bubble != nil {\n		return uintptr(c.order)\n	}\n	return uintptr(unsafe.Pointer(c))\n"},
	// A goroutine runs until it waits, not for 10 ms.
	{"runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 60"},
	// The queue of all threads has its turn when that of the one thread is empty, not after every 61 turns, of which goroutines
	// outside the bubble have some.
	{"runtime/proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if false {"},
	// A sync.Mutex goes to its oldest waiter after 1 ms: of the bubble's time.
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n	if b := getg().bubble; b != nil {\n		return b.now\n	}\n"},
}

// WriteReplay writes Go's runtime to dir as the simulation needs it in order to repeat worlds, and the list for
// -overlay. It returns the name of the list. It fails with a version of Go that it does not know.
func WriteReplay(dir string) (list string, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src")
	edited := map[string]string{}
	for _, e := range repeating {
		text := edited[e.file]
		if text == "" {
			file, err := os.ReadFile(filepath.Join(src, filepath.FromSlash(e.file)))
			if err != nil {
				return "", err
			}
			text = string(file)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s of %s has %d times what is to be replaced there, not once; internal/overlay/replay.go has to learn this version of Go:\n%s", e.file, src, n, e.old)
		}
		edited[e.file] = strings.Replace(text, e.old, e.text, 1)
	}
	return Replace(dir, src, edited)
}
