// Package inputs tells the go command which files outside the tests' module a test depends on, so that it does not repeat a cached
// result once they have changed.
package inputs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// In names all files in a folder, and in those within it. It takes the folder from the present one.
//
// The go command remembers the files that a test opens or looks at, but only those whose names begin like that of the test's module.
// That is how the names that it gets begin: they lead out of the module later.
func In(folder string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "dist") {
			return filepath.SkipDir
		}
		if err == nil {
			_, err = os.Stat(here + string(filepath.Separator) + path)
		}
		if errors.Is(err, fs.ErrNotExist) { // somebody is editing and has removed it
			return nil
		}
		return err
	})
}
