package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const completionHelp = `Usage: holdfast completion bash
       holdfast completion zsh
       holdfast completion fish

Prints a script with which a shell completes the commands of holdfast, their flags, and
names of files.

  source <(holdfast completion bash)                              # in ~/.bashrc
  holdfast completion zsh >"${fpath[1]}/_holdfast"
  holdfast completion fish >~/.config/fish/completions/holdfast.fish

Exit codes: 0 done, 64 wrong usage.
`

func completion(f *pflag.FlagSet) action {
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		write, ok := map[string]func(*strings.Builder, []*manual){"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[f.Arg(0)]
		if !ok {
			return exitcode.Usagef("want one of bash, zsh, fish: holdfast completion bash")
		}
		var script strings.Builder
		write(&script, manuals())
		return printText(stdout, script.String())
	}
}

func commandNames(all []*manual) []string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	return append(names, "help")
}

func bashCompletion(w *strings.Builder, all []*manual) {
	fmt.Fprintf(w, `# Completion of holdfast for bash: source it.
_holdfast() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} flags= files= words= i
	local commands='%s'
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W "$commands" -- "$current"))
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then # a command, and its files
			if ((i == COMP_CWORD - 1)); then
				COMPREPLY=($(compgen -c -- "$current"))
			else
				COMPREPLY=($(compgen -f -- "$current"))
			fi
			return
		fi
	done
	case ${COMP_WORDS[1]} in
	help) words=$commands ;;
`, strings.Join(commandNames(all), " "))
	for _, m := range all {
		var flags, files []string
		for _, f := range m.flags {
			flags = append(flags, "--"+f.long)
			if f.short != "" {
				flags = append(flags, "-"+f.short)
			}
			if f.isFile() && !f.optional {
				files = append(files, "--"+f.long)
			}
		}
		fmt.Fprintf(w, "\t%s) flags='%s' files='%s'", m.name, strings.Join(flags, " "), strings.Join(files, " "))
		switch words := m.words(); {
		case m.takesCommandName():
			fmt.Fprint(w, " words=$commands")
		case len(words) > 0:
			fmt.Fprintf(w, " words='%s'", strings.Join(words, " "))
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprint(w, `	esac
	if [[ $previous == --* && " $files " == *" $previous "* ]]; then
		COMPREPLY=($(compgen -f -- "$current"))
	elif [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$flags --help" -- "$current"))
	else
		COMPREPLY=($(compgen -W "$words" -- "$current"))
	fi
}
complete -o filenames -F _holdfast holdfast
`)
}

// zshText is a text within single quotes, in a specification of _arguments.
var zshText = strings.NewReplacer("'", `'\''`, `\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)

func zshCompletion(w *strings.Builder, all []*manual) {
	fmt.Fprint(w, "#compdef holdfast\n# Completion of holdfast for zsh: _holdfast in a folder of fpath.\n_holdfast() {\n\tlocal -a commands\n\tcommands=(\n")
	for _, m := range all {
		fmt.Fprintf(w, "\t\t'%s:%s'\n", m.name, zshText.Replace(m.summary))
	}
	fmt.Fprint(w, "\t\t'help:describe a command'\n\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tlocal command=$words[2]\n\tshift words\n\t((CURRENT--))\n\tcase $command in\n")
	fmt.Fprint(w, "\thelp)\n\t\t_describe command commands\n\t\t;;\n")
	for _, m := range all {
		fmt.Fprintf(w, "\t%s)\n\t\t_arguments -s \\\n", m.name)
		for _, f := range m.flags {
			text, value := zshText.Replace(f.text), ""
			switch {
			case f.isFile():
				value = ":" + f.value + ":_files"
			case f.value != "":
				value = ":" + f.value + ":"
			}
			if f.optional {
				value = ":" + value
			}
			equals := ""
			if f.value != "" {
				equals = "="
			}
			if f.optional {
				equals = "=-"
			}
			if f.short != "" {
				fmt.Fprintf(w, "\t\t\t'(-%s --%s)-%[1]s[%s]%s' \\\n\t\t\t'(-%[1]s --%[2]s)--%[2]s%[5]s[%[3]s]%[4]s' \\\n", f.short, f.long, text, value, equals)
			} else {
				fmt.Fprintf(w, "\t\t\t'*--%s%s[%s]%s' \\\n", f.long, equals, text, value)
			}
		}
		switch words := m.words(); {
		case m.runsCommand():
			fmt.Fprint(w, "\t\t\t'1:NAME:' '*:::command:_normal'\n")
		case m.takesCommandName():
			fmt.Fprint(w, "\t\t\t\"1:command:($(print -r -- ${commands%%:*}))\"\n")
		case len(words) > 0:
			fmt.Fprintf(w, "\t\t\t'*:argument:(%s)'\n", strings.Join(words, " "))
		default:
			fmt.Fprint(w, "\t\t\t'*:argument:'\n")
		}
		fmt.Fprint(w, "\t\t;;\n")
	}
	fmt.Fprint(w, "\tesac\n}\n_holdfast \"$@\"\n")
}

// fishText is a text within single quotes.
var fishText = strings.NewReplacer(`\`, `\\`, "'", `\'`)

func fishCompletion(w *strings.Builder, all []*manual) {
	fmt.Fprint(w, "# Completion of holdfast for fish: holdfast.fish in a folder of completions.\ncomplete -c holdfast -f\n")
	for _, m := range all {
		fmt.Fprintf(w, "complete -c holdfast -n __fish_use_subcommand -a %s -d '%s'\n", m.name, fishText.Replace(m.summary))
	}
	fmt.Fprint(w, "complete -c holdfast -n __fish_use_subcommand -a help -d 'describe a command'\n")
	names := strings.Join(commandNames(all), " ")
	fmt.Fprintf(w, "complete -c holdfast -n '__fish_seen_subcommand_from help' -a '%s'\n", names)
	for _, m := range all {
		in := fmt.Sprintf("complete -c holdfast -n '__fish_seen_subcommand_from %s'", m.name)
		for _, f := range m.flags {
			fmt.Fprintf(w, "%s -l %s", in, f.long)
			if f.short != "" {
				fmt.Fprintf(w, " -s %s", f.short)
			}
			switch {
			case f.optional: // takes a value only after =
			case f.isFile():
				fmt.Fprint(w, " -r -F")
			case f.value != "":
				fmt.Fprint(w, " -x")
			}
			fmt.Fprintf(w, " -d '%s'\n", fishText.Replace(f.text))
		}
		switch words := m.words(); {
		case m.takesCommandName():
			fmt.Fprintf(w, "%s -a '%s'\n", in, names)
		case len(words) > 0:
			fmt.Fprintf(w, "%s -a '%s'\n", in, strings.Join(words, " "))
		}
		if m.runsCommand() {
			fmt.Fprintf(w, "%s -F\n", in)
		}
	}
}
