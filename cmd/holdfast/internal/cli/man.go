package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

func man(f *pflag.FlagSet) action {
	dir := f.String("dir", "", "write all pages into `DIR`, which must exist, in place of older ones")
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		switch {
		case f.NArg() == 1 && f.Changed("dir"):
			return exitcode.Usagef("want one COMMAND, or --dir DIR; see holdfast help man")
		case f.Changed("dir"):
			return writePages(*dir)
		case f.NArg() == 0:
			return printText(stdout, mainPage())
		}
		c, err := find(f.Arg(0))
		if err != nil {
			return err
		}
		return printText(stdout, c.page())
	}
}

func writePages(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return exitcode.Errorf(exitcode.CannotCreate, "%s is not a folder: make it first", dir)
	}
	pages := map[string]string{"holdfast.1": mainPage()}
	for _, c := range commands() {
		pages["holdfast-"+c.name+".1"] = c.page()
	}
	for name, page := range pages {
		if err := output.PublishFile(filepath.Join(dir, name), []byte(page)); err != nil {
			return &exitcode.Error{Code: exitcode.CannotCreate, Err: err}
		}
	}
	return nil
}

// mainPage returns the manual page of holdfast, for man(1), in the language of troff.
func mainPage() string {
	var list strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&list, ".TP\n.BR holdfast\\-%s (1)\n%s\n", troff(c.name), troff(c.summary))
	}
	return pageOf("holdfast", "distributed locks on Redis and Valkey", "holdfast COMMAND [flags] [arguments]") +
		".SH COMMANDS\n" + list.String() +
		".SH ENVIRONMENT\n.TP\n.BR HOLDFAST_REDIS \", \" REDIS_URL\n" + troff("URL of the server, if there is no --redis: "+
		"the first of them counts; otherwise it is "+connect.Default+". In a job of holdfast itself, "+
		"only HOLDFAST_REDIS counts, and there is no default.") + "\n" +
		".TP\n.B HOLDFAST_PREFIX\n" + troff("what keys begin with, if there is no --prefix") + "\n" +
		".TP\n.B NO_COLOR\nIf it is set, terminals are written to without colors and bold type.\n" +
		".SH \"EXIT STATUS\"\n" + body(about("exit-codes"))
}

// page returns the manual page of a command. It says what the help says.
func (c *command) page() string {
	text := pageOf("holdfast-"+c.name, c.summary, c.usage()) + ".SH DESCRIPTION\n" + body(about(c.name)) + ".SH OPTIONS\n"
	f, _ := c.flags()
	f.VisitAll(func(f *pflag.Flag) {
		value, about := unquote(f)
		text += ".TP\n.B "
		if f.Shorthand != "" {
			text += `\-` + f.Shorthand + ", "
		}
		text += `\-\-` + troff(f.Name)
		switch {
		case value != "" && f.NoOptDefVal != "":
			text += `[=\fI` + troff(value) + `\fP]`
		case value != "":
			text += ` \fI` + troff(value) + `\fP`
		}
		text += "\n" + troff(about) + "\n"
	})
	return text + ".TP\n.B \\-h, \\-\\-help\nprint what this page says\n.SH \"SEE ALSO\"\n.BR holdfast (1)\n"
}

// unquote returns the name of a flag's value, "" if the flag has none, and the flag's description.
func unquote(f *pflag.Flag) (value, text string) {
	value, text = pflag.UnquoteUsage(f)
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && f.DefValue != "[]" {
		text += " (default " + f.DefValue + ")"
	}
	return value, text
}

func pageOf(name, summary, usage string) string {
	return fmt.Sprintf(".TH %s 1 \"\" \"holdfast %s\" \"Holdfast\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n",
		strings.ToUpper(troff(name)), thisBuild().Version, troff(name), troff(summary), troff(usage))
}

// body returns a help text as troff that does not fill its lines.
func body(help string) string {
	text := ".nf\n"
	for _, line := range strings.Split(strings.TrimSpace(help), "\n") {
		text += troff(line) + "\n"
	}
	return text + ".fi\n"
}

var troffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

func troff(text string) string {
	text = troffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// The scripts for bash and zsh, in which NAMES and CASES are replaced.
var (
	//go:embed completion.bash
	bashScript string
	//go:embed completion.zsh
	zshScript string
)

func completion(f *pflag.FlagSet) action {
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		shell, ok := map[string]func() string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[f.Arg(0)]
		if !ok {
			return exitcode.Usagef("want one of bash, zsh, fish: holdfast completion bash")
		}
		return printText(stdout, shell())
	}
}

// words returns the words that a command accepts as arguments, such as wait or bash.
func (c *command) words() string {
	var words []string
	for _, arg := range strings.Fields(c.args) {
		if arg != "--" && arg == strings.ToLower(arg) {
			words = append(words, strings.ReplaceAll(arg, "|", " "))
		}
	}
	if c.args == "[COMMAND]" {
		words = append(words, commandNames())
	}
	return strings.Join(words, " ")
}

func commandNames() string {
	names := ""
	for _, c := range commands() {
		names += c.name + " "
	}
	return names + "help"
}

func bashCompletion() string {
	cases := ""
	for _, c := range commands() {
		words := c.words()
		flags, _ := c.flags()
		flags.VisitAll(func(f *pflag.Flag) { words += " --" + f.Name })
		cases += fmt.Sprintf("\t%s) words='%s --help' ;;\n", c.name, strings.TrimSpace(words))
	}
	return strings.NewReplacer("NAMES", commandNames(), "CASES\n", cases).Replace(bashScript)
}

// zshText escapes a text for single quotes, within an argument of _arguments.
var zshText = strings.NewReplacer("'", `'\''`, `\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)

func zshCompletion() string {
	names, cases := "", ""
	for _, c := range commands() {
		names += fmt.Sprintf("\t\t'%s:%s'\n", c.name, zshText.Replace(c.summary))
		cases += "\t" + c.name + ")\n\t\t_arguments -s"
		flags, _ := c.flags()
		flags.VisitAll(func(f *pflag.Flag) {
			value, text := unquote(f)
			text, equals := "["+zshText.Replace(text)+"]", ""
			switch {
			case f.NoOptDefVal != "" && value != "":
				text, equals = text+"::"+value+":_files", "=-"
			case value != "":
				text, equals = text+":"+value+":_files", "="
			}
			if f.Shorthand != "" {
				cases += fmt.Sprintf(" \\\n\t\t\t'*-%s%s'", f.Shorthand, text)
			}
			cases += fmt.Sprintf(" \\\n\t\t\t'*--%s%s%s'", f.Name, equals, text)
		})
		arguments := "'*:argument:(" + c.words() + ")'"
		if c.args == jobArgs {
			arguments = "'1:NAME:' '*:::command:_normal'"
		}
		cases += " \\\n\t\t\t" + arguments + "\n\t\t;;\n"
	}
	return strings.NewReplacer("NAMES\n", names, "CASES\n", cases).Replace(zshScript)
}

// fishText escapes a text for single quotes.
var fishText = strings.NewReplacer(`\`, `\\`, "'", `\'`)

func fishCompletion() string {
	var b strings.Builder
	b.WriteString("# Completion of holdfast for fish: holdfast.fish in a folder of completions.\ncomplete -c holdfast -f\n")
	b.WriteString("complete -c holdfast -n __fish_use_subcommand -a help -d 'describe a command'\n")
	fmt.Fprintf(&b, "complete -c holdfast -n '__fish_seen_subcommand_from help' -a '%s'\n", commandNames())
	for _, c := range commands() {
		fmt.Fprintf(&b, "complete -c holdfast -n __fish_use_subcommand -a %s -d '%s'\n", c.name, fishText.Replace(c.summary))
		in := "complete -c holdfast -n '__fish_seen_subcommand_from " + c.name + "'"
		flags, _ := c.flags()
		flags.VisitAll(func(f *pflag.Flag) {
			value, text := unquote(f)
			short := ""
			if f.Shorthand != "" {
				short = " -s " + f.Shorthand
			}
			if value != "" && f.NoOptDefVal == "" { // a flag with an optional value takes it only after =
				short += " -r -F"
			}
			fmt.Fprintf(&b, "%s -l %s%s -d '%s'\n", in, f.Name, short, fishText.Replace(text))
		})
		if words := c.words(); words != "" {
			fmt.Fprintf(&b, "%s -a '%s'\n", in, words)
		} else if c.args == jobArgs {
			fmt.Fprintf(&b, "%s -F\n", in)
		}
	}
	return b.String()
}
