//go:build !unix

package demo

import (
	"errors"
	"os"
)

// canPause says whether this system can stop a process and let it go on.
const canPause = false

func pauseProcess(*os.Process) error { return errors.ErrUnsupported }

func resumeProcess(*os.Process) error { return errors.ErrUnsupported }
