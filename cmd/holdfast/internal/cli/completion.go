package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const completionHelp = `Prints a script with which bash completes the commands of holdfast, their flags, and
names of files.

  source <(holdfast completion bash)              # in ~/.bashrc
`

func completion(f *pflag.FlagSet) action {
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		if f.Arg(0) != "bash" {
			return exitcode.Usagef("want bash: holdfast completion bash")
		}
		names, cases := "", ""
		for _, c := range commands() {
			words := ""
			flags, _ := c.flags()
			flags.VisitAll(func(f *pflag.Flag) { words += "--" + f.Name + " " })
			names += c.name + " "
			cases += fmt.Sprintf("\t%s) words='%s--help' ;;\n", c.name, words)
		}
		return printText(stdout, strings.NewReplacer("NAMES", names+"help", "CASES\n", cases).Replace(bashScript))
	}
}

// bashScript is the script of bash, in which a job after -- is completed as a command with its files.
const bashScript = `# Completion of holdfast for bash: source it.
_holdfast() {
	local current=${COMP_WORDS[COMP_CWORD]} words= i
	local commands='NAMES'
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			((i == COMP_CWORD - 1)) && COMPREPLY=($(compgen -c -- "$current")) || COMPREPLY=($(compgen -f -- "$current"))
			return
		fi
	done
	((COMP_CWORD == 1)) && words=$commands || case ${COMP_WORDS[1]} in
	help) words=$commands ;;
CASES
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdfast holdfast
`
