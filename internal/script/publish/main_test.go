package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const published = "../../../docs/scripts"

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range append(files, filepath.Join(dir, sums)) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// Clients in other languages run the files of docs/scripts: they are what the library sends.
func TestPublishedScriptsAreTheLibrarys(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "retired.lua"), []byte("return 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(dir); err != nil {
		t.Fatal(err)
	}
	want, got := contents(t, dir), contents(t, published)
	if want["retired.lua"] != "" {
		t.Error("a script that is no more is still published")
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("docs/scripts/%s is not what the library sends", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("docs/scripts/%s is no script of the library", name)
	}
	if t.Failed() {
		t.Error(`run "go generate ./internal/script", and commit what it writes to docs/scripts`)
	}
}
