// Command publish DIR writes the scripts to a folder, as the library sends them: without comments, and with
// what they include. Clients in other languages load these files. SHA1SUMS has their digests.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/script"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: publish DIR")
	}
	if err := publish(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// sums is the file of digests, as sha1sum writes and checks it.
const sums = "SHA1SUMS"

// publish writes the files, and removes scripts that are no more.
func publish(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	var digests strings.Builder
	for _, s := range script.All() {
		name := s.Name + ".lua"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s.Source), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&digests, "%s  %s\n", s.SHA1, name)
	}
	return os.WriteFile(filepath.Join(dir, sums), []byte(digests.String()), 0o644)
}
