package main

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == workerArgument || os.Args[1] == delayerArgument) {
		main()
	}
	os.Exit(m.Run())
}
