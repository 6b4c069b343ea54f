// Package overlay has the go command build the library with other sources, and leaves
// the sources as they are: see "go help build", -overlay.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Edit replaces text that occurs just once in a file of the library.
type Edit struct {
	File     string // from the library's root, with slashes
	Old, New string
}

// Write writes the edited files, and the list of them that -overlay wants, to dir. It
// returns the name of the list.
func Write(dir string, edits ...Edit) (list string, err error) {
	texts := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root(), filepath.FromSlash(e.File))
		if _, known := texts[path]; !known {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.Old); n != 1 {
			return "", fmt.Errorf("%s has %d of %q, not one", e.File, n, e.Old)
		}
		texts[path] = strings.Replace(texts[path], e.Old, e.New, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		other := filepath.Join(dir, fmt.Sprint(len(replace), filepath.Ext(path)))
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = other
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// root is the library's folder.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
