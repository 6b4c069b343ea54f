package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// workload is what a process does in a cell. It prepares itself, calls start, which returns when the process is told to
// go, and then measures.
type workload func(ctx context.Context, l *locker, j job, b *board, start func() error) (outcome, error)

var workloads = map[string]workload{
	"free": free, "far": free, "observed": free, "quorum": free, "cluster": free,
	"contended": contended, "one": contended, "read": contended, "readwrite": contended, "crowd": contended,
	"held": held, "memory": memory, "queue": queue,
}

// work is a contestant's process. See the package's comment.
func work(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return err
	}
	b, err := openBoard(j.Board)
	if err != nil {
		return err
	}
	l, err := named(j.Contestant).open(j)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o, err := workloads[j.Kind](ctx, l, j, b, func() error {
		fmt.Fprintln(stdout, "ready")
		_, err := in.ReadString('\n')
		if j.Kind == "crowd" {
			go func() {
				_, _ = in.ReadString('\n') // stop
				cancel()
			}()
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(o); err != nil {
		return err
	}
	l.close()
	return nil
}

// meter begins to measure what the process uses. read stops.
func meter() (read func(o *outcome)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, _ := measure.ProcessCPU() // 0 on systems that have no board, either
	return func(o *outcome) {
		used, _ := measure.ProcessCPU()
		o.CPU = used - cpu
		runtime.ReadMemStats(&after)
		o.Mallocs = after.Mallocs - before.Mallocs
	}
}
