//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

const numberOfContinue = int(unix.SIGCONT)

// heard lists the signals to receive. Those that were ignored when holdfast
// started, as under nohup, stay ignored, by the command too. A broken pipe is
// an error of the write, not the end of holdfast.
func heard() []os.Signal {
	all := []os.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT, unix.SIGPIPE,
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// interrupts reports whether sig asks a program to end.
func interrupts(sig os.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// ours reports whether sig is about what we did, and not for the command.
func ours(sig os.Signal) bool { return sig == unix.SIGPIPE }

// outputIsGone reports whether nobody reads what we write any more. A SIGPIPE does not tell that: who
// receives it gets it for connections to a server that has died, too (os/signal).
func outputIsGone() bool {
	outputs := []unix.PollFd{{Fd: 1}, {Fd: 2}}
	_, err := unix.Poll(outputs, 0)
	return err == nil && slices.ContainsFunc(outputs, func(f unix.PollFd) bool { return f.Revents&unix.POLLERR != 0 })
}

// suspends reports whether sig is that of ^Z.
func suspends(sig os.Signal) bool { return sig == unix.SIGTSTP }

func continues(sig os.Signal) bool { return sig == unix.SIGCONT }

func number(sig os.Signal) int {
	if n, ok := sig.(unix.Signal); ok {
		return int(n)
	}
	return 0
}

// wantsTerminal reports whether sig is what stops those who use a terminal from the
// background.
func wantsTerminal(sig int) bool {
	return sig == int(unix.SIGTTIN) || sig == int(unix.SIGTTOU)
}

// tolerateBackground lets us use the terminal when the command has the foreground.
// What is ignored stays so in programs that are executed later: none is.
func tolerateBackground() { signal.Ignore(unix.SIGTTOU) }

// stopGroup stops our process group as ^Z would. Not with TSTP: once Go has
// caught a signal, its default action does not come back.
func stopGroup() { _ = unix.Kill(0, unix.SIGTTIN) }
