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

// reservations are the ports that this process has used. They stay reserved until it ends, since clients
// outlive their servers: a client that looks for its own server must not meet that of another test, which
// counts commands.
var reservations struct {
	sync.Mutex
	all []io.Closer
}

// ReservePort picks a port between 10000 and 19999 on which, and on whose cluster bus, nobody listens. No other
// test gets it while this process runs: a server that is down for a moment finds its port free again. Outgoing
// connections have higher ports.
func ReservePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(10000)
		// Servers listen on TCP; listening on the UDP port of the same number tells the tests of other
		// processes that it is taken.
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
