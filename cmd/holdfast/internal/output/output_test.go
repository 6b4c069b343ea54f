package output

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A file replaces a symbolic link, and not its target.
func TestReplaceFileDoesNotFollowLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: symbolic links need privileges on Windows")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte("before"), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("precious", 0o600)
	write("old", 0o640)
	if err := os.Symlink(at("precious"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("nowhere"), at("dangling")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dangling", "old", "new"} {
		if err := ReplaceFile(at(name), []byte("report")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := read(name); text != "report" {
			t.Errorf("%s: %q", name, text)
		}
	}
	if text := read("precious"); text != "before" {
		t.Errorf("the target of a link is %q", text)
	}
	if _, err := os.Lstat(at("nowhere")); err == nil {
		t.Error("the target of a dangling link was created")
	}
	if i, err := os.Stat(at("old")); err != nil || i.Mode().Perm() != 0o640 {
		t.Errorf("the mode of the old file became %v, %v", i.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 5 {
		t.Errorf("the directory has %v, %v", files, err)
	}
	if err := ReplaceFile(dir, []byte("report")); err == nil {
		t.Error("a directory was replaced")
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if runtime.GOOS != "linux" {
		return
	}
	if err := ReplaceFile("/dev/fd/"+fmt.Sprint(w.Fd()), []byte("report")); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 6)
	if _, err := r.Read(text); err != nil || string(text) != "report" {
		t.Errorf("a pipe got %q, %v", text, err)
	}
}
