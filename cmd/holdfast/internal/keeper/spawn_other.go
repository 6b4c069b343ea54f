//go:build !linux

package keeper

import (
	"net"
)

// spawn starts a keeper as a goroutine.
func spawn(spec Spec) (*link, error) {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		supervise(theirs, systemClock{}, func(o order) (processes, error) { return startCommand(o, spec) })
		theirs.Close()
	}()
	return &link{conn: ours, wait: func() error { <-done; return nil }, cleanUp: func(func([]int)) {}}, nil
}

func keep([]string) int { return 2 }

// Check returns nil, because a keeper needs no list of processes here.
func Check() error { return nil }

// ReapOrphans does nothing, because this process gets no orphans here.
func ReapOrphans() (end func()) { return func() {} }
