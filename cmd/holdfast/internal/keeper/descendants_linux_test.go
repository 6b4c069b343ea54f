package keeper

import (
	"fmt"
	"os"
	"os/exec"
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

func TestDescendantsSeesGrandchildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 1))
	var child, grandchild int
	for _, d := range descendants(os.Getpid()) {
		switch d.parent {
		case os.Getpid():
			child = d.pid
		case cmd.Process.Pid:
			grandchild = d.pid
		}
	}
	if child != cmd.Process.Pid || grandchild == 0 {
		t.Errorf("found child %d, grandchild %d; the child is %d", child, grandchild, cmd.Process.Pid)
	}
	if grandchild != 0 {
		if p, err := os.FindProcess(grandchild); err == nil {
			_ = p.Kill()
		}
	}
	_ = cmd.Wait()
}
