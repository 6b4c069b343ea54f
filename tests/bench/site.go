package main

import (
	"context"
	"fmt"
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
