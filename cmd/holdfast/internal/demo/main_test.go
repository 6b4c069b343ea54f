package demo

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/worker"
)

// TestMain makes the test binary a worker if the demo starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Arg {
		if err := worker.Main(os.Stdin, os.Stdout, openURL); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func openURL(url string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}
