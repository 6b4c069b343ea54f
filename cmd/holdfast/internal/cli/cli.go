// Package cli is the holdfast command: a file for each of its commands.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// command is one of holdfast's commands. Its exec returns nil, an *exitError, or
// another error for exit code 1.
type command struct {
	name, summary string
	help          func(io.Writer)
	exec          func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{"demo", "see locks at work: nothing needed, 10 seconds", demoHelp, runDemo},
		{"run", "run a command while holding a lock", runHelp, run},
		{"elect", "lead while running a command; say who leads", electHelp, elect},
		{"resize", "change how many slots there are", resizeHelp, resize},
		{"bench", "measure a server: what locks cost on it", benchHelp, runBench},
		{"doctor", "examine a server: is it safe for locks", doctorHelp, examine},
		{"init", "admit new servers to Strict mode, or to a quorum", initHelp, initServer},
		{"dev", "run an embedded server, for development", devHelp, dev},
		{"version", "say which version this is", versionHelp, version},
	}
}

// Main runs a command line, given without the program's name, and returns the
// exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, was := keeper.Hidden(args); was {
		return code
	}
	err := dispatch(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return 0
	}
	code := 1
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	(&voice{w: stderr}).fail(err)
	return code
}

func dispatch(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		help(stderr)
		return &exitError{exitUsage, nil}
	}
	switch args[0] {
	case demo.WorkerArg:
		return demoWorker(ctx, nil, stdin, stdout, stderr)
	case "help", "-h", "--help":
		return helpFor(args[1:], stdout)
	case "--version":
		return version(ctx, nil, stdin, stdout, stderr)
	}
	c, err := find(args[0])
	if err != nil {
		return err
	}
	return c.exec(ctx, args[1:], stdin, stdout, stderr)
}

func find(name string) (command, error) {
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
	}
	return command{}, usageError("there is no command %q; see holdfast help", name)
}

func helpFor(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		help(stdout)
		return nil
	}
	c, err := find(args[0])
	if err != nil {
		return err
	}
	c.help(stdout)
	return nil
}

func help(w io.Writer) {
	fmt.Fprint(w, "holdfast: distributed locks on Redis and Valkey\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nholdfast help COMMAND tells more.\n")
}
