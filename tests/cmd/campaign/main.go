// Campaign runs random histories with faults against real servers, and judges each history.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(campaigning(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
