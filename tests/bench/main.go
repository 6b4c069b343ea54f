// Bench compares locks with the two bare commands of the usual lock (SET NX PX, and a script that compares and deletes)
// and with other libraries. All contestants take turns on one server in one run. Only figures of the same run can be
// compared.
//
// Every turn of a contestant has processes of its own, so that their processor time and memory can be measured. Such a
// process reads a job from its standard input, as a line of JSON; prepares itself, and prints "ready"; reads "go";
// measures, and prints an outcome as a line of JSON. In a crowd it goes on until it reads "stop". The bench itself is such a program. java/Contestant.java is another,
// which knows the fields of job and outcome, and the board: a file of six 64-bit counters that the processes of a turn
// map into memory.
//
// What it shares with cmd/holdfast/bench is in cmd/holdfast/bench/measure.
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
