package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// ErrMissing says that this machine has no PostgreSQL.
var ErrMissing = errors.New("no PostgreSQL server to test with: install one (tests/ensure-postgres.sh does), " +
	"or name the folder of its programs in HOLDFAST_TEST_POSTGRES")

// places are where packages install the programs, outside PATH: one folder for each version.
var places = []string{
	"/usr/lib/postgresql/*/bin",         // Debian
	"/usr/pgsql-*/bin",                  // PostgreSQL's own for Fedora and RHEL
	"/usr/libexec/postgresql*",          // Alpine
	"/opt/homebrew/opt/postgresql*/bin", // macOS
	"/usr/local/opt/postgresql*/bin",
}

// find returns the folder of PostgreSQL's programs: the one that HOLDFAST_TEST_POSTGRES names, the one in PATH,
// or the latest that a package has installed.
func find() (string, error) {
	if dir := os.Getenv("HOLDFAST_TEST_POSTGRES"); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("HOLDFAST_TEST_POSTGRES: no initdb and postgres in %s", dir)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil && complete(filepath.Dir(path)) {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		found = append(found, slices.DeleteFunc(dirs, func(dir string) bool { return !complete(dir) })...)
	}
	if len(found) == 0 {
		return "", ErrMissing
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// complete reports whether a folder has what Start needs.
func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`\d+`)

// version returns the first number in a folder's name, or 0 if there is none.
func version(dir string) int {
	n, _ := strconv.Atoi(number.FindString(dir))
	return n
}
