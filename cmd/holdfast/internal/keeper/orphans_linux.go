package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process as /proc shows it.
type process struct {
	pid, parent, group int
	zombie             bool
}

// descendants returns the processes below root. It reads all processes of the machine: not every kernel has /proc/PID/task/*/children, and
// that file may miss some.
func descendants(root int) []process {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	below := map[int][]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // the process has ended
		}
		if p, ok := parseStat(pid, string(stat)); ok {
			below[p.parent] = append(below[p.parent], p)
		}
	}
	all := below[root]
	for i := 0; i < len(all); i++ {
		all = append(all, below[all[i].pid]...)
	}
	return all
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// parseStat parses "pid (name) state ppid pgrp ...", where name may contain anything, even parentheses.
func parseStat(pid int, stat string) (process, bool) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	return process{pid, parent, group, f[0] == "Z"}, err1 == nil && err2 == nil
}

// Check returns an error if a keeper could not find the processes of its job. The /proc of another PID namespace does not show them, or
// shows them under other numbers.
func Check() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("cannot find the processes of a job: %w (is /proc mounted?)", err)
	}
	own := strconv.Itoa(os.Getpid())
	if pids, ok := pidsOf(string(status)); ok {
		if len(pids) == 1 && pids[0] == own {
			return nil
		}
	} else if shown, err := os.Readlink("/proc/self"); err == nil && shown == own { // Linux before 4.1, or another kernel
		return nil
	}
	return errors.New("cannot find the processes of a job: /proc is that of another PID namespace " +
		"(mount one of this namespace: unshare --mount-proc, or mount -t proc proc /proc)")
}

// pidsOf returns the numbers of a process in the PID namespace of /proc and in those below it, down to the process's own. It returns false
// if the status lacks them.
func pidsOf(status string) ([]string, bool) {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(numbers), true
		}
	}
	return nil, false
}

// keepers are the children that this process has started. Its other children are orphans that the kernel has given to it, or were started
// by the program that it was before exec. The mutex is held while a child is started, and while orphans are signalled or reaped, so that a
// number is not reused for another process before it is signalled.
var keepers = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// orphans returns the children that are not keepers. The caller holds the mutex of keepers.
func orphans() (all []process) {
	if childless() {
		return nil // most runs begin without children, and reading all of /proc takes about a millisecond
	}
	for _, d := range descendants(os.Getpid()) {
		if d.parent == os.Getpid() && !keepers.pids[d.pid] {
			all = append(all, d)
		}
	}
	return all
}

// ReapOrphans reaps orphans, which the first process of a container gets, until end returns.
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
		reaping.Wait() // the caller's next children are not to be reaped
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

// killOrphans kills the processes that a dead keeper has left to this process, until none remains. It waits for processes that it may not
// kill, and passes them to denied once. before are the orphans from before the keeper.
func killOrphans(before map[int]bool, denied func([]int)) {
	told := false
	for pause := time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		n, spared := killOrphansOnce(before)
		// /proc may hide other users' processes (hidepid), but they are still children.
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

// killOrphansOnce returns the number of orphans that it found, and the orphans that it may not kill. The children of those that die become
// orphans, for the next call.
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
