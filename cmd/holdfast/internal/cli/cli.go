// Package cli is the command line of holdfast: a file for each command, or a few, with its flags, its help, and what it prints.
package cli

import (
	"context"
	"embed"
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
	define        func(f *pflag.FlagSet) action
}

// texts has for each command a text that says what it does, to which its usage and its flags are added, and one on the exit codes.
//
//go:embed help
var texts embed.FS

func about(topic string) string {
	text, err := texts.ReadFile("help/" + topic + ".txt")
	if err != nil {
		panic("holdfast: " + err.Error()) // a test asks for the help of every command
	}
	return string(text)
}

// An action carries out a command. Its flags and arguments have been read.
type action func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error

// jobArgs are the arguments of run and elect, which check them themselves.
const jobArgs = "NAME -- CMD [ARG...]"

func commands() []command {
	return []command{
		{"demo", "see locks at work in 10 seconds, without a server", "", runDemo},
		{"run", "run a command while holding a lock", jobArgs, run},
		{"acquire", "acquire a lock for a shell script", "NAME", acquire},
		{"renew", "keep the lock of a script for longer", "", renew},
		{"release", "release the lock of a script", "", release},
		{"elect", "run a command while leading, or say who leads", jobArgs, elect},
		{"ls", "list the locks, who holds them and who waits", "[PATTERN]", ls},
		{"watch", "show the locks as they change", "[PATTERN]", watch},
		{"show", "say all about one lock", "NAME", show},
		{"ui", "show the locks on web pages", "[PATTERN]", serveUI},
		{"break", "take a lock from a holder that hangs", "NAME", breakLock},
		{"revoke", "ask a holder to let go", "NAME", revoke},
		{"breaks", "list what was broken, by whom and why", "[NAME]", breaks},
		{"deadlocks", "list who waits for each other", "", deadlocks},
		{"once", "say which run of a job was completed last", "NAME", onceAction},
		{"latch", "wait for a count of parties, or count down", "NAME N wait|count-down|reset", latchAction},
		{"barrier", "wait until a number of parties wait", "NAME N wait", barrierAction},
		{"resize", "change the number of slots", "NAME N", resize},
		{"doctor", "check whether a server is safe for locks", "", examine},
		{"init", "admit new servers to Strict mode or to a quorum", "", initServers},
		{"dev", "run an embedded server for development", "", dev},
		{"completion", "print completions for a shell", "bash|zsh|fish", completion},
		{"man", "print or write manual pages", "[COMMAND]", man},
		{"version", "print the version", "", version},
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
	text := "Usage: " + c.usage() + "\n\n" + about(c.name)
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
		return about("exit-codes"), nil
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
