//go:build !linux

package keeper

import "net"

// spawn starts a keeper in this process, with which it dies.
func spawn(spec Spec) (*link, error) {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		with := surroundings{spec.Env, spec.Stdin, spec.Stdout, spec.Stderr}
		supervise(theirs, systemClock{}, func(o order) (processes, error) { return startCommand(o, with) })
		theirs.Close()
	}()
	return &link{conn: ours, wait: func() error { <-done; return nil }, cleanUp: func(func([]int)) {}}, nil
}

// keep is not used here.
func keep([]string) int { return 2 }

// Check returns nil: a keeper needs no list of processes here.
func Check() error { return nil }

// ReapOrphans does nothing: this process gets no orphans here.
func ReapOrphans() (end func()) { return func() {} }
