package keeper

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keepers are the children that this process has started. Its other children were handed over to it, or were left by
// the program that it was before exec. The lock is held while a child is started, and while others are signalled or
// reaped, so that a number that is signalled does not become another process's meanwhile.
var keepers = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// orphans returns the children that are not keepers. The lock is held.
func orphans() (all []process) {
	if childless() {
		return nil // as most runs are when they begin; reading all of /proc takes about a millisecond
	}
	for _, d := range descendants(os.Getpid()) {
		if d.parent == os.Getpid() && !keepers.pids[d.pid] {
			all = append(all, d)
		}
	}
	return all
}

// ReapOrphans reaps children that nobody waits for, as the first process of a container has them, until end has returned.
func ReapOrphans() (end func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGCHLD)
	var reaping sync.WaitGroup
	reaping.Go(func() {
		for more := true; more; _, more = <-changed {
			reapOrphans()
		}
	})
	return func() {
		signal.Stop(changed)
		close(changed)
		reaping.Wait() // so that it does not reap what the caller starts next
	}
}

func reapOrphans() {
	keepers.Lock()
	defer keepers.Unlock()
	for _, d := range orphans() {
		if d.zombie {
			_, _ = unix.Wait4(d.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// killOrphans kills what a dead keeper left to us, until nothing remains. It waits for processes that it may not kill,
// and tells denied about them once.
func killOrphans(before map[int]bool, denied func([]int)) {
	told := false
	for pause := time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		n, spared := killOrphansOnce(before)
		// Other users' processes may be hidden (hidepid), but they are still children.
		if n == 0 && (len(before) > 0 || childless()) {
			return
		}
		if len(spared) > 0 && !told {
			told = true
			denied(spared)
		}
		time.Sleep(pause)
	}
}

// killOrphansOnce returns how many orphans there were, and those that it may not kill. Children of those that die become
// orphans, too, for the next call.
func killOrphansOnce(before map[int]bool) (n int, spared []int) {
	keepers.Lock()
	defer keepers.Unlock()
	for _, d := range orphans() {
		if before[d.pid] {
			continue
		}
		n++
		if unix.Kill(d.pid, unix.SIGKILL) == unix.EPERM {
			spared = append(spared, d.pid)
		}
		_, _ = unix.Wait4(d.pid, nil, unix.WNOHANG, nil)
	}
	return n, spared
}

func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}
