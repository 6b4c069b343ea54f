//go:build unix

package cli

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// duplicate returns a copy of a descriptor that this process was given. It refuses a terminal, which would show the ticket. It also refuses
// anything but files, pipes and sockets: such a descriptor belongs to Go's runtime.
func duplicate(fd int, forWriting bool) (*os.File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d is not open", fd)
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, err
	}
	access := flags & unix.O_ACCMODE
	switch kind := info.Mode & unix.S_IFMT; {
	case kind != unix.S_IFREG && kind != unix.S_IFIFO && kind != unix.S_IFSOCK && kind != unix.S_IFCHR:
		return nil, fmt.Errorf("file descriptor %d is not a file or a pipe", fd)
	case forWriting && access == unix.O_RDONLY:
		return nil, fmt.Errorf("file descriptor %d is not open for writing", fd)
	case !forWriting && access == unix.O_WRONLY:
		return nil, fmt.Errorf("file descriptor %d is not open for reading", fd)
	}
	if _, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
		return nil, fmt.Errorf("file descriptor %d is a terminal, and a ticket is a secret", fd)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), "ticket"), nil
}
