//go:build !unix

package holdfastgoredis

import "net"

// isClosed cannot tell here. A connection that is closed fails with its next call.
func isClosed(net.Conn) bool { return false }
