package keeper

import (
	"os"
	"strconv"
	"strings"
)

// found is a process as /proc shows it.
type found struct {
	pid, parent, group int
	zombie             bool
}

// descendants lists the processes below root. It reads every process of the
// machine: /proc/PID/task/*/children is not on every kernel, and may miss some.
func descendants(root int) []found {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	below := map[int][]found{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // It ended.
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

// parseStat reads "pid (name) state ppid pgrp ...", where name may contain
// anything, parentheses too.
func parseStat(pid int, stat string) (found, bool) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return found{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	return found{pid, parent, group, f[0] == "Z"}, err1 == nil && err2 == nil
}
