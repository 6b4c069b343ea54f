package main

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"time"
)

// delayerArgument makes the program a delayer: bench delayer ADDR DURATION.
const delayerArgument = "delayer"

// delayer stands for a network: it forwards connections to a server, and what is sent on them, in either direction,
// arrives after a constant time. It says the address at which it listens, and ends with its standard input.
//
// Everything is delayed equally, so what arrives is one queue. Its thread sleeps in the system: in a process
// that has nothing else to do, Go's timers are a millisecond late.
func delayer(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: bench %s ADDR DURATION", delayerArgument)
	}
	delay, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one is asleep
	way := make(chan packet, 1<<16)
	go deliver(way)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", args[0])
			if err != nil {
				client.Close()
				continue
			}
			go forward(client, server, delay, way)
			go forward(server, client, delay, way)
		}
	}()
	fmt.Fprintln(stdout, listener.Addr())
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// packet is some bytes on their way; none: the end of the connection.
type packet struct {
	to   net.Conn
	data []byte
	due  time.Time
}

func forward(from, to net.Conn, delay time.Duration, way chan<- packet) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		due := time.Now().Add(delay)
		if n > 0 {
			way <- packet{to, append([]byte(nil), buffer[:n]...), due}
		}
		if err != nil {
			way <- packet{to, nil, due}
			return
		}
	}
}

func deliver(way <-chan packet) {
	runtime.LockOSThread()
	sharpen()
	for p := range way {
		if left := time.Until(p.due); left > 0 {
			sleep(left)
		}
		if p.data == nil {
			p.to.Close()
			continue
		}
		_, _ = p.to.Write(p.data) // of a connection that has ended its readers tell
	}
}
