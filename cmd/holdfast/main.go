// Command holdfast runs jobs under a distributed lock, and shows and breaks locks. See "holdfast help".
package main

import (
	"context"
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	_ "github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper/early"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
