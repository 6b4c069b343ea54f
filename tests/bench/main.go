// Bench measures locks beside the bare two commands of the canonical lock (SET NX PX, and a
// script that compares and deletes) and beside other libraries, on one server, all
// contestants in turn in one run. Figures are worth comparing within a run only.
//
// Every turn of a contestant runs in processes of its own, so that processor time and memory
// are its own. Such a process reads a job from its standard input, as a line of JSON; gets
// ready, and says "ready" on its standard output; is told "go"; measures, and prints an
// outcome as a line of JSON. The bench is its own such program; java/Contestant.java is another, which
// knows the fields of job and outcome, and the board, which is a file of five 64-bit counters that the
// processes of a turn map into memory.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(bench(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
