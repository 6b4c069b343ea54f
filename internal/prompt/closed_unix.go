//go:build unix

package prompt

import (
	"net"
	"syscall"
	"time"
)

// isClosed reports whether an idle connection was closed by the other side, or has received something that nobody asked
// for. It does not block. For a TLS connection it returns false.
func isClosed(conn net.Conn) bool {
	file, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil { // it wraps one for TLS
		return false
	}
	if conn.SetReadDeadline(time.Time{}) != nil { // the deadline of the last call may have passed
		return true
	}
	open := false
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = err == syscall.EAGAIN
		return true
	})
	return err != nil || !open
}
