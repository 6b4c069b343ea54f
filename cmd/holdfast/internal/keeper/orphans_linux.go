package keeper

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// family knows which children this process has started: keepers. Others were handed over to it, or
// left by what it was before exec. Whoever starts a child, or signals or reaps one that is no keeper,
// holds the lock: a number that is signalled is not another's meanwhile.
var family = struct {
	sync.Mutex
	keepers map[int]bool
}{keepers: map[int]bool{}}

// orphans are the children that are no keepers; the lock is held.
func orphans() (all []found) {
	for _, d := range descendants(os.Getpid()) {
		if d.parent == os.Getpid() && !family.keepers[d.pid] {
			all = append(all, d)
		}
	}
	return all
}

// ReapOrphans reaps, until it is ended, the children that end without anybody waiting for them, as the
// first process of a container has them.
func ReapOrphans() (end func()) {
	changed, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(changed, unix.SIGCHLD)
	go func() {
		for {
			reapOrphans()
			select {
			case <-changed:
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(over)
	}
}

func reapOrphans() {
	family.Lock()
	defer family.Unlock()
	for _, d := range orphans() {
		if d.zombie {
			_, _ = unix.Wait4(d.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// sweep kills what a dead keeper left to us, until none of it is there. It waits for what it may not
// kill, and tells denied of it, once.
func sweep(before map[int]bool, denied func([]int)) {
	told := false
	for pause := time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		left, spared := sweepOnce(before)
		// Processes of others may be hidden (hidepid), and children all the same.
		if left == 0 && (len(before) > 0 || childless()) {
			return
		}
		if len(spared) > 0 && !told {
			told = true
			denied(spared)
		}
		time.Sleep(pause)
	}
}

// sweepOnce returns how many there were, and those of them that it may not kill. Children of those that die
// become ours, and are for the next call.
func sweepOnce(before map[int]bool) (left int, spared []int) {
	family.Lock()
	defer family.Unlock()
	for _, d := range orphans() {
		if before[d.pid] {
			continue
		}
		left++
		if unix.Kill(d.pid, unix.SIGKILL) == unix.EPERM {
			spared = append(spared, d.pid)
		}
		_, _ = unix.Wait4(d.pid, nil, unix.WNOHANG, nil)
	}
	return left, spared
}

func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}
