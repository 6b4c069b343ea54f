package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

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
