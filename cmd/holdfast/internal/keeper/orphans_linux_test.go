package keeper

import (
	"fmt"
	"testing"
)

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

func TestPIDsOf(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tx\nNSpid:\t7\nNSpgid:\t9\n": "[7] true",
		"NSpid:\t4711\t7\n":                 "[4711 7] true",
		"Name:\tNSpid\nPid:\t7\n":           "[] false",
	} {
		if got := fmt.Sprint(pidsOf(status)); got != want {
			t.Errorf("%q: %s, want %s", status, got, want)
		}
	}
}
