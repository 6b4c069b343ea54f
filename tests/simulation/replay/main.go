// Command replay writes Go's runtime, changed so that worlds of the simulation repeat exactly, to a folder, and prints
// what to pass to the go command as -overlay:
//
//	go test -tags replay -overlay=$(go run ./simulation/replay DIR) ./simulation
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: replay DIR")
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	list, err := overlay.WriteReplay(dir)
	if err != nil {
		return err
	}
	fmt.Println(list)
	return nil
}
