// Command conformance judges clients of the protocol that others wrote: see conformance -help.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
