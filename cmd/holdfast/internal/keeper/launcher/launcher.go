//go:build unix

// Package launcher is what becomes a keeper's command: a process that waits until the keeper lets it run the program. A
// program that imports this package is a launcher if it is started as one. It becomes that as it is initialized, before
// most other packages are, which would take as long as all that a launcher does: Go initializes packages in the order of
// their import paths, each after those that it imports. So this package imports few.
package launcher

import (
	"os"
	"strconv"
	"syscall"
)

// Argv returns the arguments of a launcher: gate is the number of a file from which it reads a byte before it runs the
// program of that path with args.
func Argv(gate int, path string, args []string) []string {
	return append([]string{"holdfast", arg, strconv.Itoa(gate), path}, args...)
}

const arg = "__launch"

// All init functions run on the first thread. So does exec, which keeps its thread's parent-death signal.
func init() {
	if len(os.Args) > 1 && os.Args[1] == arg {
		os.Exit(launch(os.Args[2:]))
	}
}

// launch returns the exit code if it fails.
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
		return 126 // The keeper has died.
	}
	if err := dieWithKeeper(); err != nil {
		complain(err.Error())
		return 126
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
