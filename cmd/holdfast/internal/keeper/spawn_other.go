//go:build !linux

package keeper

import "net"

// spawn starts a keeper in this process: it dies with it.
func spawn(spec Spec) (*link, error) {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(theirs, systemClock{}, stdio{spec.Env, spec.Stdin, spec.Stdout, spec.Stderr})
		theirs.Close()
	}()
	return &link{conn: ours, wait: func() error { <-done; return nil }, sweep: func(func([]int)) {}}, nil
}

// keep has no use here.
func keep([]string) int { return 2 }

// Check reports nothing: no list of processes is needed here.
func Check() error { return nil }

// ReapOrphans does nothing: orphans are not given to this process here.
func ReapOrphans() (end func()) { return func() {} }
