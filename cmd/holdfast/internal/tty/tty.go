//go:build unix

// Package tty moves a terminal's foreground between process groups, and reads a terminal's size.
package tty

import (
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is the controlling terminal of this process.
type Terminal struct {
	f *os.File
}

// Open opens the controlling terminal. It returns nil if there is none, as under cron. The methods of a nil Terminal do nothing.
func Open() *Terminal {
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

// Pass makes the process group to the foreground process group if from is. A caller that may be in the background must ignore SIGTTOU,
// which would stop it here.
func (t *Terminal) Pass(from, to int) {
	if t.Foreground(from) {
		// Pass fails if the terminal was hung up, and then it does not matter.
		_ = unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, to)
	}
}

// OwnGroup returns the process group of this process.
func OwnGroup() int {
	pgid, err := unix.Getpgid(0)
	if err != nil {
		panic("holdfast: getpgid of this process: " + err.Error())
	}
	return pgid
}

// IsTerminal reports whether f is the controlling terminal of this process.
func IsTerminal(f *os.File) bool {
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
