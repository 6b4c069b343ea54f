package launcher

import (
	"os"
	"syscall"
)

// dieWithKeeper asks for KILL when the keeper dies. The keeper has asked for it already, but exec clears that if this
// program's file has capabilities.
func dieWithKeeper() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return nil
}
