// Package cli is the command line of holdfast: a file for each command, with its flags, its help, and what it prints.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/worker"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// command is one of holdfast's commands. exec returns nil, an *exitcode.Error, or another error, which exits with 1.
type command struct {
	name, summary string
	help          func(io.Writer)
	exec          func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{"demo", "see locks at work in 10 seconds, without a server", demoHelp, runDemo},
		{"run", "run a command while holding a lock", runHelp, run},
		{"acquire", "acquire a lock for a shell script", acquireHelp, acquire},
		{"renew", "keep the lock of a script for longer", renewHelp, renew},
		{"release", "release the lock of a script", releaseHelp, release},
		{"elect", "run a command while leading, or say who leads", electHelp, elect},
		{"ls", "list the locks, who holds them and who waits", lsHelp, ls},
		{"watch", "show the locks as they change", watchHelp, watch},
		{"show", "say all about one lock", showHelp, show},
		{"ui", "show the locks on web pages", uiHelp, serveUI},
		{"break", "take a lock from a holder that hangs", breakHelp, breakLock},
		{"revoke", "ask a holder to let go", revokeHelp, revoke},
		{"breaks", "list what was broken, by whom and why", breaksHelp, breaks},
		{"once", "say which run of a job was completed last", onceHelp, once},
		{"latch", "wait for a count of parties, or count down", latchHelp, latch},
		{"barrier", "wait until a number of parties wait", barrierHelp, barrier},
		{"resize", "change the number of slots", resizeHelp, resize},
		{"bench", "measure what locks cost on a server", benchHelp, runBench},
		{"doctor", "check whether a server is safe for locks", doctorHelp, examine},
		{"conformance", "judge a client of the protocol that you wrote", conformanceHelp, judgeClient},
		{"init", "admit new servers to Strict mode or to a quorum", initHelp, initServers},
		{"dev", "run an embedded server for development", devHelp, dev},
		{"completion", "print completions for a shell", completionHelp, completion},
		{"man", "print or write manual pages", manHelp, man},
		{"version", "print the version", versionHelp, version},
	}
}

// Main runs a command line, which does not include the program's name, and returns the exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return 0
	}
	code := 1
	var exit *exitcode.Error
	if errors.As(err, &exit) {
		code = exit.Code
		if exit.Err == nil {
			return code
		}
	}
	console.New(stderr, console.Normal).Error(err)
	return code
}

func dispatch(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		help(stderr)
		return &exitcode.Error{Code: exitcode.Usage}
	}
	switch args[0] {
	case worker.Arg:
		return worker.Main(stdin, stdout, openDemo)
	case "help", "-h", "--help":
		return written(stdout, func(w io.Writer) error { return helpFor(args[1:], w) })
	case "--version":
		args[0] = "version"
	}
	c, err := find(args[0])
	if err != nil {
		return err
	}
	if args = args[1:]; len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		return written(stdout, func(w io.Writer) error { c.help(w); return nil })
	}
	return c.exec(ctx, args, stdin, stdout, stderr)
}

// written writes what help prints at once, and reports if that fails.
func written(stdout io.Writer, help func(io.Writer) error) error {
	var text bytes.Buffer
	if err := help(&text); err != nil {
		return err
	}
	if _, err := stdout.Write(text.Bytes()); err != nil {
		return exitcode.OfOutput(err)
	}
	return nil
}

func find(name string) (command, error) {
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
	}
	return command{}, exitcode.Usagef("there is no command %q; see holdfast help", name)
}

func helpFor(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		help(stdout)
		return nil
	}
	if args[0] == exitCodesTopic {
		for _, code := range exitcode.All {
			fmt.Fprintf(stdout, "%10s  %s\n", code.Text(), code.Meaning)
		}
		return nil
	}
	c, err := find(args[0])
	if err != nil {
		return err
	}
	c.help(stdout)
	return nil
}

// exitCodesTopic is what help describes besides commands.
const exitCodesTopic = "exit-codes"

func help(w io.Writer) {
	fmt.Fprint(w, "holdfast: distributed locks on Redis and Valkey\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nSee holdfast help COMMAND for one of them, and holdfast help exit-codes.\n")
}
