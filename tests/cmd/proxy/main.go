// Command proxy writes a module proxy for tagged modules of a repository to a folder, in the form that GOPROXY=file://FOLDER
// takes (https://go.dev/ref/mod#goproxy-protocol).
//
//	proxy REPOSITORY FOLDER VERSION MODULE...
//
// A MODULE is a folder of the repository; its tag is MODULE/VERSION, the root's VERSION.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const root = "github.com/holdfast-go/holdfast"

func main() {
	log.SetFlags(0)
	if len(os.Args) < 5 {
		log.Fatal("usage: proxy REPOSITORY FOLDER VERSION MODULE...")
	}
	for _, folder := range os.Args[4:] {
		if err := publish(os.Args[1], os.Args[2], os.Args[3], path.Clean(folder)); err != nil {
			log.Fatalf("proxy: %s: %v", folder, err)
		}
	}
}

// publish writes a module's files.
func publish(repository, to, version, folder string) error {
	name, tag := root, version
	if folder == "." {
		folder = ""
	} else {
		name, tag = path.Join(root, folder), folder+"/"+version
	}
	escaped, err := module.EscapePath(name)
	if err != nil {
		return err
	}
	dir := filepath.Join(to, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mod, err := exec.Command("git", "-C", repository, "show", tag+":"+path.Join(folder, "go.mod")).Output()
	if err != nil {
		return fmt.Errorf("tag %s: %w", tag, err)
	}
	for file, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": fmt.Sprintf("{\"Version\":%q,\"Time\":%q}\n", version, time.Now().UTC().Format(time.RFC3339)),
		version + ".mod":  string(mod),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromVCS(f, module.Version{Path: name, Version: version}, repository, tag, folder); err != nil {
		return err
	}
	return f.Close()
}
