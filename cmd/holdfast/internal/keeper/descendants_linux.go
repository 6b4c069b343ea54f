package keeper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// process is a process as /proc shows it.
type process struct {
	pid, parent, group int
	zombie             bool
}

// descendants lists the processes below root. It reads all processes of the machine, because not every kernel has
// /proc/PID/task/*/children, which may also miss some.
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
			continue // It has ended.
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

// Check returns an error if a keeper could not find the processes of its job. A /proc of another PID namespace does
// not show them, or has other numbers for them.
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

// pidsOf returns the numbers of a process in the PID namespace of /proc and in the namespaces below, down to its own. It
// returns false if its status does not have them.
func pidsOf(status string) ([]string, bool) {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(numbers), true
		}
	}
	return nil, false
}
