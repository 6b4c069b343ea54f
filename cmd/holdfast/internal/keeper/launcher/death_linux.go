package launcher

import (
	"os"
	"syscall"
)

// dieWithKeeper makes the kernel kill this process when the keeper dies. The keeper has already asked for that, but exec clears it if this
// program's file has capabilities.
func dieWithKeeper() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return nil
}
