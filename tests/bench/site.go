package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// servers are those that a contestant uses in a turn.
type servers interface {
	addrs() []string
	cpu() (time.Duration, error)              // the processor time that all of them have used
	sent(other string) (sum int64, err error) // commands that acquire or release locks, with one other besides scripts
}

// site is the Redis servers on which a cell is measured: one, the masters of a Cluster, or the nodes of a quorum.
type site []*server.Server

func (s site) addrs() (all []string) {
	for _, one := range s {
		all = append(all, one.Addr())
	}
	return all
}

func (s site) cpu() (sum time.Duration, err error) {
	for _, one := range s {
		sum += one.CPU()
	}
	return sum, nil
}

// sent counts scripts, a command that replaces a script, and one other.
func (s site) sent(other string) (sum int64, err error) {
	for _, one := range s {
		for command, n := range one.CommandStats() {
			if command == "evalsha" || command == "eval" || command == "delifeq" || command == other {
				sum += n
			}
		}
	}
	return sum, nil
}

// rig is what the turns of a run work with.
type rig struct {
	h     *harness.TB
	bin   server.Binary
	dir   string   // for boards
	self  string   // this program
	java  []string // runs the contestant in Java; nil without a JVM
	jvm   *worker  // while it runs
	etcd  string   // its server, a program; "" if it cannot be built
	sites map[string]site

	delayers map[string]*worker // by address and delay
	delayed  map[string]string  // their own addresses
}

// delay returns addresses that lead to these with a delay in each direction.
func (v *rig) delay(addrs []string, delay time.Duration) (all []string, err error) {
	for _, addr := range addrs {
		key := fmt.Sprint(addr, " ", delay)
		if v.delayers[key] == nil {
			w, err := start(v.self, delayerArgument, addr, delay.String())
			if err != nil {
				return nil, err
			}
			v.delayers[key] = w
			line, err := w.out.ReadString('\n')
			if err != nil {
				return nil, fmt.Errorf("the delayer of %s does not start: %w", addr, err)
			}
			v.delayed[key] = strings.TrimSpace(line)
		}
		all = append(all, v.delayed[key])
	}
	return all, nil
}

func (v *rig) endDelayers() {
	for _, w := range v.delayers {
		w.end()
	}
}

// endJVM ends the JVM if it runs.
func (v *rig) endJVM() {
	if v.jvm != nil {
		v.jvm.kill() // it has nothing to finish
		v.jvm.end()
		v.jvm = nil
	}
}

// site returns the servers for a kind of cell, and starts them if it is the first of that kind.
func (v *rig) site(ctx context.Context, kind string) site {
	form := "one server"
	if kind == "quorum" || kind == "cluster" {
		form = kind
	}
	if s := v.sites[form]; s != nil {
		return s
	}
	var s site
	switch form {
	case "quorum":
		for range 5 {
			s = append(s, server.Start(v.h, v.bin))
		}
		if err := admit(ctx, s.addrs()); err != nil {
			v.h.Fatal(err)
		}
	case "cluster":
		s = server.StartCluster(v.h, v.bin, 3)
	default:
		s = site{server.Start(v.h, v.bin)}
	}
	v.sites[form] = s
	return s
}

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
