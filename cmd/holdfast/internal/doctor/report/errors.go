package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNotTold is the error of a server that answers a command, but without what was asked for, as an embedded server
// does.
var ErrNotTold = errors.New("the server does not tell")

// Because says in a few words why a command gave no answer.
func Because(command string, err error) string {
	text := ServerText(err)
	switch {
	case errors.Is(err, ErrNotTold):
		return command + ": " + text
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return command + ": no answer in time"
	case IsDenied(err):
		return "NOPERM for " + command
	case strings.HasPrefix(text, "ERR unknown command"), strings.HasPrefix(text, "ERR unknown subcommand"):
		return "the server does not know " + command
	}
	return fmt.Sprintf("%s: %.120s", command, text)
}

// ServerText returns the text of an error without the arguments that a server repeats of an unknown command. The
// command may be AUTH, and the arguments are cut off, so that a password in them may not be recognised.
func ServerText(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return text
}

// IsDenied reports whether the server's ACL denied a command, by itself or in a script.
func IsDenied(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "The user executing the script can't")
}
