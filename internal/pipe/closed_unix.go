//go:build unix

package pipe

import (
	"net"
	"syscall"
	"time"
)

// isClosed reports whether the server has closed an idle connection, or has sent something unasked. It does not block. It returns false if
// conn exposes no file descriptor, as connections of custom dialers may not.
func isClosed(conn net.Conn) bool {
	conn = below(conn) // a server that ends a TLS connection also closes the one below
	file, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil { // conn wraps something without a file descriptor
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
