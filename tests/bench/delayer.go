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

// delayer simulates a network: it forwards connections to a server, and delays what is sent in either direction by a
// constant time. It prints the address at which it listens, and ends with its standard input.
//
// Because all packets have the same delay, one queue keeps them in order. The thread that delivers them sleeps in a
// system call: in a process that is otherwise idle, Go's timers are a millisecond late.
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
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one thread sleeps
	queue := make(chan packet, 1<<16)
	go deliver(queue)
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
			go forward(client, server, delay, queue)
			go forward(server, client, delay, queue)
		}
	}()
	fmt.Fprintln(stdout, listener.Addr())
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// packet is bytes that are under way. A packet without data is the end of the connection.
type packet struct {
	to   net.Conn
	data []byte
	due  time.Time
}

func forward(from, to net.Conn, delay time.Duration, queue chan<- packet) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		due := time.Now().Add(delay)
		if n > 0 {
			queue <- packet{to, append([]byte(nil), buffer[:n]...), due}
		}
		if err != nil {
			queue <- packet{to, nil, due}
			return
		}
	}
}

func deliver(queue <-chan packet) {
	runtime.LockOSThread()
	sharpen()
	for p := range queue {
		if left := time.Until(p.due); left > 0 {
			sleep(left)
		}
		if p.data == nil {
			p.to.Close()
			continue
		}
		_, _ = p.to.Write(p.data) // if the connection has ended, its reader notices
	}
}
