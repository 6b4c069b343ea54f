package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// busOffset is how far above its port a server of a cluster talks to others.
const busOffset = 10000

// freePort picks a port between 10000 and 19999 that nobody listens on, nor on
// its cluster bus. Below the range from which the system takes the local ports
// of outgoing connections, so that a server that is down for a moment finds
// its port free again.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 10000 + rand.IntN(10000)
		if last = errors.Join(tryListen(port), tryListen(port+busOffset)); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found: %w", last)
}

func tryListen(port int) error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	return l.Close()
}
