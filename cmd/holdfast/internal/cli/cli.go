// Package cli is the command line of holdfast: a file for each command, or a few, with its flags, its help, and what it prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

type command struct {
	name, summary string
	args          string // its arguments, as the help shows them; one in brackets is optional
	help          string // what the command does; its usage and flags are added
	define        func(f *pflag.FlagSet) action
}

// An action carries out a command. Its flags and arguments have been read.
type action func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error

// jobArgs are the arguments of run and elect, which check them themselves.
const jobArgs = "NAME -- CMD [ARG...]"

func commands() []command {
	return []command{
		{"demo", "see locks at work in 10 seconds, without a server", "", demoHelp, runDemo},
		{"run", "run a command while holding a lock", jobArgs, runHelp, run},
		{"acquire", "acquire a lock for a shell script", "NAME", acquireHelp, acquire},
		{"renew", "keep the lock of a script for longer", "", renewHelp, renew},
		{"release", "release the lock of a script", "", releaseHelp, release},
		{"elect", "run a command while leading, or say who leads", jobArgs, electHelp, elect},
		{"ls", "list the locks, who holds them and who waits", "[PATTERN]", lsHelp, ls},
		{"watch", "show the locks as they change", "[PATTERN]", watchHelp, watch},
		{"show", "say all about one lock", "NAME", showHelp, show},
		{"ui", "show the locks on web pages", "[PATTERN]", uiHelp, serveUI},
		{"break", "take a lock from a holder that hangs", "NAME", breakHelp, breakLock},
		{"revoke", "ask a holder to let go", "NAME", revokeHelp, revoke},
		{"breaks", "list what was broken, by whom and why", "[NAME]", breaksHelp, breaks},
		{"once", "say which run of a job was completed last", "NAME", onceHelp, onceAction},
		{"latch", "wait for a count of parties, or count down", "NAME N wait|count-down|reset", latchHelp, latchAction},
		{"barrier", "wait until a number of parties wait", "NAME N wait", barrierHelp, barrierAction},
		{"resize", "change the number of slots", "NAME N", resizeHelp, resize},
		{"doctor", "check whether a server is safe for locks", "", doctorHelp, examine},
		{"init", "admit new servers to Strict mode or to a quorum", "", initHelp, initServers},
		{"dev", "run an embedded server for development", "", devHelp, dev},
		{"completion", "print completions for a shell", "bash|zsh|fish", completionHelp, completion},
		{"man", "print or write manual pages", "[COMMAND]", manHelp, man},
		{"version", "print the version", "", versionHelp, version},
	}
}

// Main runs a command line, which does not include the program's name, and returns the exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return console.New(stderr, console.Normal).Exit(dispatch(ctx, args, stdin, stdout, stderr))
}

func dispatch(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		_, _ = io.WriteString(stderr, overview())
		return &exitcode.Error{Code: exitcode.Usage}
	}
	switch args[0] {
	case demo.WorkerArg:
		if err := demo.Worker(args[1:], stdin, stdout); err != nil {
			return &exitcode.Error{Code: exitcode.None, Err: err}
		}
		return nil
	case "help", "-h", "--help":
		text, err := helpFor(args[1:])
		if err != nil {
			return err
		}
		return printText(stdout, text)
	case "--version":
		args[0] = "version"
	}
	c, err := find(args[0])
	if err != nil {
		return err
	}
	f, act := c.flags()
	if err := f.Parse(args[1:]); errors.Is(err, pflag.ErrHelp) {
		return printText(stdout, c.text())
	} else if err != nil {
		return exitcode.Usagef("%w; see holdfast help %s", withoutValue(err), c.name)
	}
	if err := c.checkArgs(f); err != nil {
		return err
	}
	return act(ctx, stdin, stdout, stderr)
}

func find(name string) (*command, error) {
	for _, c := range commands() {
		if c.name == name {
			return &c, nil
		}
	}
	return nil, exitcode.Usagef("there is no command %q; see holdfast help", name)
}

// flags returns the command's flags, in the order of their definition, and its action.
func (c *command) flags() (*pflag.FlagSet, action) {
	f := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	return f, c.define(f)
}

func (c *command) usage() string {
	return strings.TrimSpace("holdfast " + c.name + " [flags] " + c.args)
}

func (c *command) text() string {
	f, _ := c.flags()
	text := "Usage: " + c.usage() + "\n\n" + c.help
	if f.HasFlags() {
		text += "\nFlags:\n" + f.FlagUsagesWrapped(100)
	}
	return text + "\nSee holdfast help exit-codes for the exit codes.\n"
}

func (c *command) checkArgs(f *pflag.FlagSet) error {
	names := strings.Fields(c.args)
	optional := strings.HasPrefix(c.args, "[")
	switch n := f.NArg(); {
	case strings.Contains(c.args, "--") || n == 0 && optional:
	case len(names) == 0 && n > 0:
		return exitcode.Usagef("holdfast %s takes no arguments; see holdfast help %[1]s", c.name)
	case n != len(names):
		want, hint := c.args, ""
		if n > 1 && c.args == "[PATTERN]" {
			hint = " (quote it for the shell)"
		}
		if len(names) == 1 {
			want = "one " + strings.Trim(want, "[]")
		}
		return exitcode.Usagef("want %s, not %d arguments%s: %s", want, n, hint, c.usage())
	case n > 0 && f.Arg(0) == "" && !optional:
		return exitcode.Usagef("%s is empty", names[0])
	}
	return nil
}

func helpFor(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return overview(), nil
	case args[0] == "exit-codes":
		return exitcode.Help, nil
	}
	c, err := find(args[0])
	if err != nil {
		return "", err
	}
	return c.text(), nil
}

func overview() string {
	var text strings.Builder
	text.WriteString("holdfast: distributed locks on Redis and Valkey\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&text, "  %-12s %s\n", c.name, c.summary)
	}
	text.WriteString("\nSee holdfast help COMMAND for one of them, and holdfast help exit-codes.\n")
	return text.String()
}
