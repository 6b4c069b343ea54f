package keeper

import "testing"

func TestParseStat(t *testing.T) {
	for stat, want := range map[string]process{
		"12 (sh) S 3 4 5 0":             {12, 3, 4, false},
		"12 (a) Z 9 9) (b) Z 3 4 5 0\n": {12, 3, 4, true},
	} {
		if got, ok := parseStat(12, stat); !ok || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", stat, got, ok, want)
		}
	}
	for _, stat := range []string{"", "12 (sh)", "12 (sh) S x y"} {
		if got, ok := parseStat(12, stat); ok {
			t.Errorf("%q: got %+v", stat, got)
		}
	}
}
