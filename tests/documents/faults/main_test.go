package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
)

func TestFaultsAreThoseOfTheTests(t *testing.T) {
	expect.OK(t, inputs.In(root))
	want := expect.Of(page(root)).OK(t)
	expect.AtLeast(t, "tests that say which faults they survive", strings.Count(want, "_test.go)"), 200)
	got := expect.Of(os.ReadFile(filepath.Join(root, "docs", "faults.md"))).OK(t)
	expect.Equal(t, "docs/faults.md is not what the comments of tests say: run go generate ./tests/documents/faults", string(got), want)
}
