package cli

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/holdfast-go/holdfast"
)

// Exit codes, beside those of the command that is run. 64 to 78 mean what they
// mean in sysexits.h, 124 to 127 what they mean to timeout(1) and to shells.
const (
	exitUsage       = 64
	exitUnavailable = 69
	exitInternal    = 70
	exitSystem      = 71
	exitBusy        = 75
	exitRefused     = 77
	exitConfig      = 78
	exitLost        = 79
	exitTries       = 80
	exitOvertime    = 124
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the signal's number
)

// exitError is an error with the exit code that it leads to. With a nil err
// everything has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// unwritten is the end of a program that could not write its output: where nobody reads it any more,
// as of one that does not hear of SIGPIPE.
func unwritten(err error) *exitError {
	if errors.Is(err, syscall.EPIPE) {
		return &exitError{exitSignal + int(syscall.SIGPIPE), nil}
	}
	return &exitError{exitInternal, err}
}

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func configError(format string, args ...any) error {
	return &exitError{exitConfig, fmt.Errorf(format, args...)}
}

// failure gives an error of the library its exit code. Those of ErrHeld and of
// contexts depend on what was asked for, and are not decided here.
func failure(err error) *exitError {
	code := exitUnavailable
	switch {
	case errors.Is(err, holdfast.ErrInvalid):
		code = exitUsage
	case errors.Is(err, holdfast.ErrDenied):
		code = exitRefused
	case errors.Is(err, holdfast.ErrMismatch), errors.Is(err, holdfast.ErrUnsupported):
		code = exitConfig
	case errors.Is(err, holdfast.ErrLost):
		code = exitLost
	}
	return &exitError{code, err}
}
