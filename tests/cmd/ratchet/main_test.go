package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

const text = `# a comment
order a.go b.go
order c.go

go      100  90 a reason
walk      7   7
`

func TestAFigureThatGrows(t *testing.T) {
	b, err := parse(text)
	if err != nil || !slices.Equal(b.order, []string{"a.go", "b.go", "c.go"}) {
		t.Fatal(b, err)
	}
	for what, c := range map[string]struct {
		figures map[string]int
		want    []string // the errors begin with these
	}{
		"nothing grows":         {map[string]int{"go": 100, "walk": 6}, nil},
		"one grows":             {map[string]int{"go": 101, "walk": 7}, []string{"go has grown to 101"}},
		"one has no record":     {map[string]int{"go": 1, "walk": 7, "lua": 3}, []string{"lua is 3, and has no record"}},
		"one is not measured":   {map[string]int{"go": 1}, []string{"walk has a record, but nothing measures it"}},
		"two grow, in one step": {map[string]int{"go": 101, "walk": 8}, []string{"go has grown", "walk has grown"}},
	} {
		got := b.broken(c.figures)
		if !slices.EqualFunc(got, c.want, func(err error, begin string) bool { return strings.HasPrefix(err.Error(), begin) }) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestRecordsAreLowered(t *testing.T) {
	b, _ := parse(text)
	for _, c := range []struct {
		figures map[string]int
		want    record // of go
	}{
		{map[string]int{"go": 95, "walk": 8}, record{"go", 95, 90, "a reason"}},
		{map[string]int{"go": 80, "walk": 7}, record{"go", 80, 80, ""}},
		{map[string]int{"go": 120}, record{"go", 100, 90, "a reason"}},
	} {
		lowered := b.lowered(c.figures)
		again, err := parse(lowered)
		if err != nil || again.records[0] != c.want || again.records[1] != b.records[1] || again.rest != b.rest {
			t.Errorf("%v: %v\n%s", c.figures, err, lowered)
		}
	}
}

func TestARaisedRecordNeedsAReason(t *testing.T) {
	for _, s := range []string{"go 100 90\n", "go 80 90 lower than ever\n", "go 100\n", "go a b\n"} {
		expect.Fails(t, s, expect.ErrOf(parse(s)))
	}
}

func TestLinesAreCountedByWhatTheyAreFor(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{
		"lock.go", "lock_test.go", "internal/x/x.go", "internal/x/x.lua", "cmd/y/y.go", "cmd/y/y_test.go", "cmd/holdfast/bench/b.go", "tests/z.go", "tests/z.lua",
		"examples/e.go", "docs/scripts/x.lua", "docs/decisions/0001-a.md", "docs/decisions/README.md", ".git/w.go", "dist/v.go",
	} {
		path = filepath.Join(root, path)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.OK(t, os.WriteFile(path, []byte("one\ntwo\n"), 0o644))
	}
	got := map[string]int{}
	expect.OK(t, lines(root, got))
	if want := map[string]int{"go": 8, "go-library": 4, "go-command": 2, "go-programs": 2, "go-tests": 6, "lua": 2, "decisions": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestUpwards(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"go.mod":                    "module example.com/m\n\ngo 1.25\n",
		"internal/engine/low.go":    "package engine\n\nimport \"time\"\n\ntype low struct{ since time.Time }\n\nfunc (l low) f() { high{}.g(); high{}.g(); h() }\n",
		"internal/engine/middle.go": "package engine\n\nfunc h() { var a int; a++ }\n",
		"internal/engine/high.go":   "package engine\n\ntype high struct{ low }\n\nfunc (high) g() { h() }\n",
	} {
		path = filepath.Join(root, path)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Setenv("GOWORK", "off")
	for order, want := range map[string]int{"low.go middle.go high.go": 2, "middle.go low.go high.go": 1, "middle.go high.go low.go": 1} {
		expect.Of(upwards(root, strings.Fields(order))).Is(t, order, want)
	}
	expect.Fails(t, "a file without a place", expect.ErrOf(upwards(root, []string{"low.go", "high.go"})))
}

func TestTheStoryOfAnAcquire(t *testing.T) {
	const walked = "walk functions\npassed github.com/holdfast-go/holdfast/lock.go:1: *Lock.Acquire 100.0%\n" +
		"passed github.com/holdfast-go/holdfast/internal/pipe/line.go:2:\tline.send\t 50.0%\nacquire 2 2 2 2\n"
	for told, want := range map[string]int{
		"`holdfast.Lock.Acquire` (see `Config`) and `pipe.line.send`": 0,
		"`holdfast.Lock.Acquire`, `pipe.line.send`, `pipe.gone`":      1,
	} {
		if wrong := story(told, walked); len(wrong) != want {
			t.Errorf("%s: %v", told, wrong)
		}
	}
}
