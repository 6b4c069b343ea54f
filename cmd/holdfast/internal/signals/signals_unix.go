//go:build unix

package signals

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// The numbers of SIGCONT and SIGSTOP.
const (
	Continue = int(unix.SIGCONT)
	Stop     = int(unix.SIGSTOP)
)

// Handled returns the signals that holdfast handles. Signals that were ignored when holdfast started, as under nohup, stay ignored, also in
// the command. SIGPIPE is handled so that a broken pipe becomes a write error instead of killing holdfast.
func Handled() []os.Signal {
	all := []os.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT, unix.SIGPIPE,
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// EndsProgram reports whether sig asks a program to end.
func EndsProgram(sig os.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// IsBrokenPipe reports whether sig is SIGPIPE. It is about holdfast's own writes, and not meant for the command.
func IsBrokenPipe(sig os.Signal) bool { return sig == unix.SIGPIPE }

// outputClosed reports whether the reader of holdfast's output has gone. SIGPIPE does not imply that: a program that handles it also
// receives it for connections to a server that has died (os/signal).
func outputClosed() bool {
	outputs := []unix.PollFd{{Fd: 1}, {Fd: 2}}
	_, err := unix.Poll(outputs, 0)
	return err == nil && slices.ContainsFunc(outputs, func(f unix.PollFd) bool { return f.Revents&unix.POLLERR != 0 })
}

// Suspends reports whether sig is the signal of ^Z.
func Suspends(sig os.Signal) bool { return sig == unix.SIGTSTP }

// Resizes reports whether sig tells of a terminal's new size.
func Resizes(sig os.Signal) bool { return sig == unix.SIGWINCH }

// Continues reports whether sig continues stopped programs.
func Continues(sig os.Signal) bool { return sig == unix.SIGCONT }

// Number returns the number of sig.
func Number(sig os.Signal) int {
	if n, ok := sig.(unix.Signal); ok {
		return int(n)
	}
	return 0
}

// IsTerminalAccess reports whether the signal with this number stops programs that use the terminal from the background.
func IsTerminalAccess(sig int) bool {
	return sig == int(unix.SIGTTIN) || sig == int(unix.SIGTTOU)
}

// AllowTerminalFromBackground lets holdfast use the terminal while the command is in the foreground. Later children would inherit this;
// there are none.
func AllowTerminalFromBackground() { signal.Ignore(unix.SIGTTOU) }

// StopGroup stops the process group of holdfast, as ^Z would. It does not use SIGTSTP: once Go has handled a signal, its default action
// does not come back.
func StopGroup() { _ = unix.Kill(0, unix.SIGTTIN) }
