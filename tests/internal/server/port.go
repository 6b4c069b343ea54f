package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// busOffset is how far above its port a server of a cluster talks to others.
const busOffset = 10000

// reservations are the ports that this process has had. They stay reserved to its end, since clients
// outlive their servers: one that looks for its own must not meet another test's, which counts commands.
var reservations struct {
	sync.Mutex
	all []io.Closer
}

// reservePort picks a port between 10000 and 19999 that nobody listens on, nor on
// its cluster bus, and that is no other test's as long as this process runs: a server
// that is down for a moment finds its port free again. Outgoing connections have
// higher ports.
func reservePort() (int, error) {
	var err error
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
			reservations.Lock()
			defer reservations.Unlock()
			reservations.all = append(reservations.all, udp)
			return port, nil
		}
		udp.Close()
	}
	return 0, fmt.Errorf("no free port found: %w", err)
}

func tryListen(port int) error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	return l.Close()
}
