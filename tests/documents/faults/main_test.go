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
