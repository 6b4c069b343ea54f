// Package exitcode has the exit codes of holdfast, and errors that carry one.
package exitcode

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/sentinel"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// Exit codes of holdfast, besides those of the commands that it runs. 64 to 78 are those of sysexits.h, 124 to 127
// those of timeout(1) and shells.
const (
	None         = 1 // the answer to a question is nobody, or nothing
	Usage        = 64
	NoInput      = 66 // there is no ticket
	Unavailable  = 69
	Internal     = 70
	System       = 71
	CannotCreate = 73 // a ticket, or another file
	Busy         = 75
	Denied       = 77
	Config       = 78
	Lost         = 79
	Tries        = 80
	Broken       = 81 // a latch or a barrier, by a party that left
	Overtime     = 124
	NotRunnable  = 126
	NotFound     = 127
	Signal       = 128 // plus the signal's number
)

// Code is an exit code, or several in a row, and what it means.
type Code struct {
	First, Last int
	Meaning     string
}

// Text returns the code as people write it.
func (c Code) Text() string {
	if c.Last > c.First {
		return fmt.Sprintf("%d to %d", c.First, c.Last)
	}
	return strconv.Itoa(c.First)
}

func code(n int, meaning string) Code { return Code{n, n, meaning} }

// All are the exit codes of holdfast. They do not change; new ones may be added.
var All = []Code{
	code(0, "done; of a question, yes"),
	code(None, "the answer to a question is nobody, or nothing; of demo and doctor, something failed or is wrong"),
	{2, 3, "of doctor, problems, or checks that were impossible"},
	code(Usage, "wrong usage"),
	code(NoInput, "renew, release: there is no ticket"),
	code(Unavailable, "the server cannot be reached, or grants nothing at present"),
	code(Internal, "the keeper process died, or the output could not be written"),
	code(System, "the system cannot start processes, or listen on an address"),
	code(CannotCreate, "a ticket or a page cannot be written"),
	code(Busy, "the lock is held, or what was waited for has not happened in time"),
	code(Denied, "credentials or ACL refused"),
	code(Config, "wrong configuration, or another kind of lock"),
	code(Lost, "the lock was lost"),
	code(Tries, "run: --max-tries runs have failed"),
	code(Broken, "latch, barrier: a party left or died, or the latch was reset"),
	code(Overtime, "run, elect: --max-runtime was over"),
	code(NotRunnable, "run, elect: the command cannot be executed"),
	code(NotFound, "run, elect: the command was not found"),
	{Signal + 1, Signal + 15, "128 and the number of the signal that ended holdfast, or the command: 129 HUP, 130 INT, 131 QUIT, 141 PIPE, 143 TERM"},
}

// Error is an error that ends holdfast with an exit code. If Err is nil, the user has been told everything.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Usagef returns an error for a wrong command line.
func Usagef(format string, args ...any) *Error {
	return &Error{Usage, fmt.Errorf(format, args...)}
}

// Configf returns an error for values that cannot be used, or not together.
func Configf(format string, args ...any) *Error {
	return &Error{Config, fmt.Errorf(format, args...)}
}

// As returns err as an *Error: it is Internal if err carries no other code.
func As(err error) *Error {
	var exit *Error
	if errors.As(err, &exit) {
		return exit
	}
	return &Error{Internal, err}
}

// Of returns err as an *Error: that which it carries, or OfLibrary's.
func Of(err error) *Error {
	var exit *Error
	if errors.As(err, &exit) {
		return exit
	}
	return OfLibrary(err)
}

// OfLibrary gives an error of the library, or of a signal, its exit code. ErrHeld and the errors of contexts have codes that depend on
// the command; they get Unavailable.
func OfLibrary(err error) *Error {
	code := Unavailable
	var sig signals.Error
	switch {
	case errors.As(err, &sig):
		code = Signal + signals.Number(sig.Signal)
	case errors.Is(err, holdfast.ErrInvalid):
		code = Usage
	case errors.Is(err, holdfast.ErrDenied):
		code = Denied
	case errors.Is(err, holdfast.ErrMismatch), errors.Is(err, holdfast.ErrUnsupported), sentinel.IsHopeless(err):
		code = Config
	case errors.Is(err, holdfast.ErrLost):
		code = Lost
	}
	return &Error{code, err}
}

// OfOutput gives a failed write to standard output its exit code. If nobody reads the output any more, holdfast ends
// as a program that SIGPIPE kills.
func OfOutput(err error) *Error {
	if errors.Is(err, syscall.EPIPE) {
		return &Error{Signal + int(syscall.SIGPIPE), nil}
	}
	return &Error{Internal, err}
}
