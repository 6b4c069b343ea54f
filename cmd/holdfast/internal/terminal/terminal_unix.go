//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// Signals that not every system has.
const (
	Continue = unix.SIGCONT
	Stop     = unix.SIGSTOP
	Suspend  = unix.SIGTSTP  // ^Z
	Resize   = unix.SIGWINCH // the terminal has a new size
)

// Signals returns the signals that holdfast handles. Signals that were ignored when holdfast started, as under nohup, stay ignored, also in
// the command. SIGPIPE is handled so that a broken pipe becomes a write error instead of killing holdfast.
func Signals() []os.Signal {
	all := []os.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, Resize, Suspend, Continue, BrokenPipe,
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// outputClosed reports whether the reader of holdfast's output has gone. SIGPIPE does not imply that: a program that handles it also
// receives it for connections to a server that has died (os/signal).
func outputClosed() bool {
	outputs := []unix.PollFd{{Fd: 1}, {Fd: 2}}
	_, err := unix.Poll(outputs, 0)
	return err == nil && slices.ContainsFunc(outputs, func(f unix.PollFd) bool { return f.Revents&unix.POLLERR != 0 })
}

// StopsUsers reports whether sig stops programs that use the terminal from the background.
func StopsUsers(sig int) bool { return sig == int(unix.SIGTTIN) || sig == int(unix.SIGTTOU) }

// StopGroup stops the process group of holdfast, as ^Z would. It does not use SIGTSTP: once Go has handled a signal, its default action
// does not come back.
func StopGroup() { _ = unix.Kill(0, unix.SIGTTIN) }

// Terminal is the controlling terminal of this process.
type Terminal struct {
	f *os.File
}

// Open opens the controlling terminal. From then on, this process and the children that it starts may write to it from the background. Open
// returns nil if there is no terminal, as under cron. The methods of a nil Terminal do nothing.
func Open() *Terminal {
	signal.Ignore(unix.SIGTTOU)
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &Terminal{f}
}

func (t *Terminal) Close() {
	if t != nil {
		t.f.Close()
	}
}

// Foreground reports whether pgid is the foreground process group.
func (t *Terminal) Foreground(pgid int) bool {
	if t == nil {
		return false
	}
	fg, err := unix.IoctlGetInt(int(t.f.Fd()), unix.TIOCGPGRP)
	return err == nil && fg == pgid
}

// Pass moves the foreground from one process group to another. It does nothing if from is not in the foreground.
func (t *Terminal) Pass(from, to int) {
	if t.Foreground(from) {
		// Pass fails if the terminal was hung up, and then it does not matter.
		_ = unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, to)
	}
}

// OwnGroup returns the process group of this process.
func OwnGroup() int { return unix.Getpgrp() }

// Is reports whether f is the controlling terminal of this process.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// Size returns the size of a terminal. ok is false if f is no terminal.
func Size(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
