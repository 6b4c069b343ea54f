// Package inputs tells the go command on which files outside the tests' module a test depends, so that it runs the test again when
// they have changed.
package inputs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// In makes a test depend on all files in a folder and below it. The folder's name is relative to the working directory.
//
// The go command notes which files a test opens or looks at, and ignores names that do not begin with the folder of the test's
// module. So In uses names that begin with it, and leave the module by "..".
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
