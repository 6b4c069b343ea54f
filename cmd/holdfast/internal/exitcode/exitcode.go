// Package exitcode has the exit codes of holdfast, and errors that carry one.
package exitcode

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/sentinel"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Exit codes of holdfast itself, which holdfast help exit-codes explains. New ones may be added; the existing ones do not change. 64 to 78
// are those of sysexits.h, 124 to 127 those of timeout(1) and shells.
const (
	None         = 1 // the answer to a question is nobody, or nothing
	Problems     = 2 // of a server, or deadlocks
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
	Broken       = 81 // a latch or a barrier, by a party that left or a reset
	Overtime     = 124
	NotRunnable  = 126
	NotFound     = 127
	Signal       = 128 // plus the signal's number
)

// Error is an error that ends holdfast with an exit code. Err is nil if there is nothing left to tell the user.
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

// Errorf returns an error with an exit code.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// Usagef returns an error for a wrong command line.
func Usagef(format string, args ...any) *Error { return Errorf(Usage, format, args...) }

// Configf returns an error for values that cannot be used, or not together.
func Configf(format string, args ...any) *Error { return Errorf(Config, format, args...) }

// Of returns the *Error that err carries, or else OfLibrary's.
func Of(err error) *Error {
	var exit *Error
	if errors.As(err, &exit) {
		return exit
	}
	return OfLibrary(err)
}

// OfLibrary gives an error of the library, or of a signal, its exit code. Every other error gets Unavailable.
func OfLibrary(err error) *Error {
	code := Unavailable
	var sig terminal.SignalError
	switch {
	case errors.As(err, &sig):
		code = Signal + terminal.Number(sig.Signal)
	case errors.Is(err, holdfast.ErrInvalid):
		code = Usage
	case errors.Is(err, holdfast.ErrDenied):
		code = Denied
	case errors.Is(err, holdfast.ErrMismatch), errors.Is(err, holdfast.ErrUnsupported), sentinel.IsHopeless(err):
		code = Config
	case errors.Is(err, holdfast.ErrLost):
		code = Lost
	case errors.Is(err, holdfast.ErrHeld):
		code = Busy
	}
	return &Error{code, err}
}

// Interrupted returns the error for what a signal ended, with when, such as "while waiting", and with err if the server was unavailable.
func Interrupted(sig os.Signal, when string, err error) *Error {
	exit := Errorf(Signal+terminal.Number(sig), "%s %s", sig, when)
	if errors.Is(err, holdfast.ErrUnavailable) {
		exit.Err = fmt.Errorf("%w; %w", exit.Err, err)
	}
	return exit
}

// OfOutput gives a failed write to standard output its exit code. If the output's reader has gone, holdfast ends as if SIGPIPE had
// killed it.
func OfOutput(err error) *Error {
	if errors.Is(err, syscall.EPIPE) {
		return &Error{Signal + int(syscall.SIGPIPE), nil}
	}
	return &Error{Internal, err}
}
