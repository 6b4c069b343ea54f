package cli

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// users are those who may see the inspector: hashes of passwords by name.
type users map[string][sha256.Size]byte

// readUsers reads a file with a line user:password for each user. It skips blank lines and lines that begin with #. Its errors do
// not quote the file.
func readUsers(name string) (users, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, err
	}
	all := users{}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, is := strings.Cut(line, ":")
		if !is || user == "" || password == "" {
			return nil, fmt.Errorf("%s, line %d: want user:password", name, i+1)
		}
		if _, twice := all[user]; twice {
			return nil, fmt.Errorf("%s, line %d: the user comes twice", name, i+1)
		}
		all[user] = sha256.Sum256([]byte(password))
	}
	if len(all) == 0 {
		return nil, errors.New(name + " names no user: want lines user:password")
	}
	return all, nil
}

// has reports whether these are a user's name and password. Its running time depends on neither.
func (u users) has(user, password string) bool {
	given, name := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(user))
	found := 0
	for own, hash := range u {
		ownName := sha256.Sum256([]byte(own))
		found |= subtle.ConstantTimeCompare(name[:], ownName[:]) & subtle.ConstantTimeCompare(given[:], hash[:])
	}
	return found == 1
}
