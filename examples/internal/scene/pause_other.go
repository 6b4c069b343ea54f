//go:build !unix

package scene

import (
	"errors"
	"os"
)

// canPause says whether this system can stop a process and let it go on.
const canPause = false

func pause(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
