package script

import (
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
	sources, err := Assemble(tree(
		"x/one.lua", "-- one.lua: a script.\n\n-- requires c, a\n\nreturn 1\n",
		"y/two.lua", "-- requires b\nreturn 2\n",
		"y/three.lua", "return 3\n",
		"fragments/a.lua", "-- a.lua: a fragment.\n--\n-- requires b\n-- requires c\n\nlocal a = b + c\n",
		"fragments/b.lua", "-- requires d\nlocal b = d\n",
		"fragments/c.lua", "-- requires d\n  -- why\n\nlocal c = d -- said here\n",
		"fragments/d.lua", "local d\n",
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"one":   "local d\nlocal c = d -- said here\nlocal b = d\nlocal a = b + c\nreturn 1\n",
		"two":   "local d\nlocal b = d\nreturn 2\n",
		"three": "return 3\n",
	} {
		if got := sources[name]; got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
	if len(sources) != 3 {
		t.Errorf("there are %d scripts, want 3", len(sources))
	}
}

func TestBrokenTreesAreRefused(t *testing.T) {
	for want, broken := range map[string]fstest.MapFS{
		`fragments/a.lua: it requires "nowhere", but fragments has no such file`: tree("x/s.lua", "-- requires a\n", "fragments/a.lua", "-- requires nowhere\n"),
		`x/s.lua: it requires "r", but fragments has no such file`:               tree("x/s.lua", "-- requires r\n", "x/r.lua", "return 1\n"),
		"fragments/a.lua: it requires itself: a -> b -> c -> a": tree("x/s.lua", "-- requires d\n-- requires a\n", "fragments/a.lua", "-- requires b\n",
			"fragments/b.lua", "-- requires d\n-- requires c\n", "fragments/c.lua", "-- requires a\n", "fragments/d.lua", ""),
		"fragments/b.lua: no script requires it":                               tree("x/s.lua", "-- requires a\n", "fragments/a.lua", "", "fragments/b.lua", "-- requires a\n"),
		"y/s.lua: x/s.lua has the same name":                                   tree("x/s.lua", "return 1\n", "y/s.lua", "return 2\n"),
		`x/s.lua: "-- requires a b" is not a line "-- requires NAME, ANOTHER"`: tree("x/s.lua", "-- requires a b\n", "fragments/a.lua", ""),
		`x/s.lua: "-- requires a, " is not a line "-- requires NAME, ANOTHER"`: tree("x/s.lua", "-- requires a, \n", "fragments/a.lua", ""),
		`x/s.lua: "  --require a" is not a line "-- requires NAME, ANOTHER"`:   tree("x/s.lua", "  --require a\n", "fragments/a.lua", ""),
		`x/s.lua: "-- include a" is not a line "-- requires NAME, ANOTHER"`:    tree("x/s.lua", "-- include a\n", "fragments/a.lua", ""),
	} {
		if _, err := Assemble(broken); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}
