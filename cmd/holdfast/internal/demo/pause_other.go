//go:build !unix

package demo

import (
	"errors"
	"os"
)

// canPause reports whether this system can pause a process.
const canPause = false

func pauseProcess(*os.Process) error { return errors.ErrUnsupported }

func resumeProcess(*os.Process) error { return errors.ErrUnsupported }
