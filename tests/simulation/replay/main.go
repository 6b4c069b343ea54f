// Command replay writes Go's runtime, changed so that worlds of the simulation repeat exactly, to a folder, and prints
// what to pass to the go command as -overlay:
//
//	go test -tags replay -overlay=$(go run ./simulation/replay DIR) ./simulation
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: replay DIR")
	}
	dir, err := filepath.Abs(os.Args[1])
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	var list string
	if err == nil {
		list, err = overlay.WriteReplay(dir)
	}
	if err != nil {
		log.Fatal("replay: ", err)
	}
	fmt.Println(list)
}
