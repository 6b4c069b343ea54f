package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/inputs"
)

func TestFaultsAreThoseOfTheTests(t *testing.T) {
	if err := inputs.In(root); err != nil {
		t.Fatal(err)
	}
	want, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(want, "_test.go)"); n < 200 {
		t.Fatalf("only %d tests say which faults they survive", n)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/faults.md is not what the comments of tests say: run go generate ./tests/documents/faults")
	}
}

func TestCommentsThatMakeNoRowAreErrors(t *testing.T) {
	for what, comment := range map[string]string{
		"no outcome":         "// Fault: The holder dies.\nfunc TestA(t *testing.T) {}",
		"no full stop":       "// Fault: The holder dies. The lock is free\nfunc TestA(t *testing.T) {}",
		"not above a test":   "// Fault: The holder dies. The lock is free.\nfunc help() {}",
		"inside of a test":   "func TestA(t *testing.T) {\n\t// Bug: It hangs.\n}",
		"a table's column":   "// Bug: It hangs | or not.\nfunc TestA(t *testing.T) {}",
		"behind other words": "// TestA tests.\n//\n// Fault: The holder dies.\nfunc TestA(t *testing.T) {}",
	} {
		all, err := fromTests("a_test.go", []byte("package a\n\n"+comment+"\n"))
		if err == nil {
			_, err = render(all)
		}
		if err == nil {
			t.Errorf("%s: no error for %q", what, comment)
		}
	}
}
