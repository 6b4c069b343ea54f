//go:build !unix

package postgres

import (
	"fmt"
	"runtime"
	"syscall"
)

func unprivileged(string) (func() *syscall.SysProcAttr, error) {
	return nil, fmt.Errorf("%w (it is not started on %s)", ErrMissing, runtime.GOOS)
}
