package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// errSilent is the error of a server that answers a command without what was asked for,
// as an embedded one does.
var errSilent = errors.New("the server does not tell")

// unchecked says that a check could not be made, because a command failed.
func unchecked(id, command string, err error) Finding {
	return Finding{ID: id, Severity: Unchecked, Saw: because(command, err)}
}

// because says why a command did not tell, in a few words.
func because(command string, err error) string {
	text := said(err)
	switch {
	case errors.Is(err, errSilent):
		return command + ": " + text
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return command + ": no answer in time"
	case refused(err):
		return "NOPERM for " + command
	case strings.HasPrefix(text, "ERR unknown command"), strings.HasPrefix(text, "ERR unknown subcommand"):
		return "the server does not know " + command
	}
	return fmt.Sprintf("%s: %.120s", command, text)
}

// said returns what an error says, without the arguments that a server repeats of a command that it does not know:
// the command may be AUTH, and the arguments are cut off, so that a password in them may not be recognised as one.
func said(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return text
}

// refused reports whether the server's ACL refused a command, by itself or in a script.
func refused(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "The user executing the script can't")
}
