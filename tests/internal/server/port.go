package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// busOffset is how far above its port a server of a cluster talks to others.
const busOffset = 10000

// reservePort picks a port between 10000 and 19999 that nobody listens on, nor on
// its cluster bus, and that is no other test's until the reservation is closed: a server
// that is down for a moment finds its port free again. Outgoing connections have
// higher ports.
func reservePort() (port int, reservation io.Closer, err error) {
	for range 100 {
		port := 10000 + rand.IntN(10000)
		// Servers listen on TCP; the UDP port of the same number says that it is
		// taken, to the tests of other processes too.
		udp, err1 := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err1 != nil {
			err = err1
			continue
		}
		if err = errors.Join(tryListen(port), tryListen(port+busOffset)); err == nil {
			return port, udp, nil
		}
		udp.Close()
	}
	return 0, nil, fmt.Errorf("no free port found: %w", err)
}

func tryListen(port int) error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	return l.Close()
}
