//go:build unix

// Package launcher is the process that becomes a keeper's command: it waits until the keeper lets it run the program.
//
// A program that imports this package becomes a launcher if it is started with a launcher's arguments. The launcher runs while this package
// is initialized, before most other packages, because their initialization would take as long as everything that a launcher does. Go
// initializes packages in the order of their import paths, each after the packages that it imports. So this package imports little.
package launcher

import (
	"os"
	"strconv"
	"syscall"
)

// Argv returns the arguments of a launcher for the program at path, which gets args. The launcher reads a byte from the file descriptor
// gate before it runs the program.
func Argv(gate int, path string, args []string) []string {
	return append([]string{"holdfast", arg, strconv.Itoa(gate), path}, args...)
}

const arg = "__launch"

// All init functions run on the first thread. So does exec, which keeps that thread's parent-death signal.
func init() {
	if len(os.Args) > 1 && os.Args[1] == arg {
		os.Exit(launch(os.Args[2:]))
	}
}

// launch becomes the program. It returns an exit code if that fails.
func launch(args []string) int {
	if len(args) < 3 {
		return 126
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return 126
	}
	syscall.CloseOnExec(fd)
	if n, _ := os.NewFile(uintptr(fd), "gate").Read(make([]byte, 1)); n == 0 {
		return 126 // the keeper has died
	}
	err = syscall.Exec(args[1], args[2:], os.Environ())
	hint := ""
	code := 126
	switch err {
	case syscall.ENOEXEC:
		hint = " (a script needs a first line such as #!/bin/sh, or use -c)"
	case syscall.ENOENT:
		hint, code = " (if it is a script, does its interpreter exist?)", 127
	}
	complain("cannot run " + args[1] + ": " + err.Error() + hint)
	return code
}

func complain(text string) { _, _ = os.Stderr.WriteString("holdfast: " + text + "\n") }
