//go:build unix

package prompt

import (
	"net"
	"syscall"
	"time"
)

// isClosed reports whether an idle connection was closed by the other side, or has received something that nobody asked
// for. It does not block. It returns false if conn shows no file, as that of a custom dialer may not.
func isClosed(conn net.Conn) bool {
	conn = below(conn) // where the server's end of a TLS connection shows as well
	file, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil { // it wraps something that has no file
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
