package keeper

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn starts a keeper process in a process group of its own, so that it does not receive the signals that a terminal or kill sends to
// this process's group.
func spawn(spec Spec) (_ *link, err error) {
	// Existing children, left by a shell that called exec, do not belong to the job.
	before := map[int]bool{}
	if !childless() {
		for _, d := range descendants(os.Getpid()) {
			before[d.pid] = true
		}
	}
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket to the keeper: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "parent")
	defer theirs.Close()
	watched, lifeline, err := newLifeline()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer lifeline.Close()
	defer func() {
		if err != nil {
			ours.Close()
			watched.Close()
		}
	}()
	fd, err := inheritable(theirs)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	lifelineFD, err := inheritable(lifeline)
	if err != nil {
		return nil, err
	}
	defer unix.Close(lifelineFD)
	cmd := exec.Command("/proc/self/exe", keepArg, strconv.Itoa(fd), strconv.Itoa(lifelineFD))
	cmd.Args[0] = "holdfast"
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Env, spec.Stdin, spec.Stdout, spec.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	keepers.Lock()
	defer keepers.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	pid := cmd.Process.Pid
	keepers.pids[pid] = true
	return &link{
		conn: ours,
		kill: func() { _ = cmd.Process.Kill() }, // fails if the keeper has ended
		wake: func() { _ = cmd.Process.Signal(unix.SIGCONT) },
		wait: func() error {
			err := cmd.Wait()
			watched.Close()
			keepers.Lock()
			defer keepers.Unlock()
			delete(keepers.pids, pid)
			return err
		},
		cleanUp: func(denied func([]int)) { killOrphans(before, denied) },
	}, nil
}

// newLifeline returns a pipe, whose end lifeline only the keeper has. When the keeper's death closes that end, the kernel continues this
// process: if it stayed stopped, the processes that the keeper leaves would outlive the lock.
func newLifeline() (watched, lifeline *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe to the keeper: %w", err)
	}
	watched, lifeline = os.NewFile(uintptr(fds[0]), "lifeline"), os.NewFile(uintptr(fds[1]), "lifeline")
	for _, set := range [][2]int{{unix.F_SETOWN, os.Getpid()}, {unix.F_SETSIG, int(unix.SIGCONT)}, {unix.F_SETFL, unix.O_ASYNC}} {
		if _, err := unix.FcntlInt(uintptr(fds[0]), set[0], set[1]); err != nil {
			watched.Close()
			lifeline.Close()
			return nil, nil, fmt.Errorf("pipe to the keeper: %w", err)
		}
	}
	return watched, lifeline, nil
}

// keep is the keeper process.
func keep(args []string) int {
	// The command is killed when this thread ends.
	runtime.LockOSThread()
	if len(args) != 2 {
		return 2
	}
	fd, err := strconv.Atoi(args[0])
	lifeline, err2 := strconv.Atoi(args[1])
	if err != nil || err2 != nil {
		return 2
	}
	// The job must not inherit them: otherwise the parent would not see them close.
	unix.CloseOnExec(fd)
	unix.CloseOnExec(lifeline)
	// Only KILL ends a keeper before its job. In the command, signals that are handled here get back their default action, and ignored
	// ones (nohup) stay ignored.
	sink := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(sink, sig)
		}
	}
	conn := os.NewFile(uintptr(fd), "parent")
	if err := becomeSubreaper(); err != nil {
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return 2
	}
	spec := Spec{Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	supervise(conn, systemClock{}, func(o order) (processes, error) { return startCommand(o, spec) })
	return 0
}

func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	return nil
}
