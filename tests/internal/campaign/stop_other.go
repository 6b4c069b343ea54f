//go:build !unix

package campaign

import (
	"errors"
	"os"
	"runtime"
)

func stop(*os.Process) error {
	return errors.New("pausing a process is not supported on " + runtime.GOOS)
}

func goOn(*os.Process) error { return nil }
