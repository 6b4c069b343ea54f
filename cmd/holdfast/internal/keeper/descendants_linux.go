package keeper

import (
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
