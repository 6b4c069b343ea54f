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

// spawn starts a keeper process. It is in a process group of its own, so that
// what is meant for ours, by a terminal or by kill, spares it.
func spawn(spec Spec) (*link, error) {
	// Children that we have already, as an exec'ing shell leaves them, are none of
	// the job's.
	before := map[int]bool{}
	for _, d := range descendants(os.Getpid()) {
		before[d.pid] = true
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
	conn := &lifelined{ours, watched}
	fd, err := inheritable(theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer unix.Close(fd)
	line, err := inheritable(lifeline)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer unix.Close(line)
	cmd := exec.Command("/proc/self/exe", keepArg, strconv.Itoa(fd), strconv.Itoa(line))
	cmd.Args[0] = "holdfast"
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Env, spec.Stdin, spec.Stdout, spec.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	family.Lock()
	defer family.Unlock()
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	pid := cmd.Process.Pid
	family.keepers[pid] = true
	return &link{
		conn: conn,
		kill: func() { _ = cmd.Process.Kill() }, // It fails if the keeper has ended.
		wake: func() { _ = cmd.Process.Signal(unix.SIGCONT) },
		wait: func() error {
			err := cmd.Wait()
			family.Lock()
			defer family.Unlock()
			delete(family.keepers, pid)
			return err
		},
		sweep: func(denied func([]int)) { sweep(before, denied) },
	}, nil
}

// newLifeline returns a pipe whose one end the keeper alone is to have. When that is closed, by the keeper's
// death, the kernel continues this process: if it is stopped, what the keeper leaves would outlive the lock.
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

// lifelined is a connection to a keeper that continues this process by its end, until it is closed.
type lifelined struct {
	*os.File
	watched *os.File
}

func (c *lifelined) Close() error {
	c.watched.Close()
	return c.File.Close()
}

// keep is the keeper's main function.
func keep(args []string) int {
	// The command's parent-death signal comes when this thread ends.
	runtime.LockOSThread()
	if len(args) != 2 {
		return 2
	}
	fd, err := strconv.Atoi(args[0])
	line, err2 := strconv.Atoi(args[1])
	if err != nil || err2 != nil {
		return 2
	}
	// Were they open in the job, their end would not show.
	unix.CloseOnExec(fd)
	unix.CloseOnExec(line)
	// Nothing but KILL ends a keeper before its job. Handled signals are the
	// default ones again in the command; ignored ones (nohup) stay ignored.
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
	serve(conn, wakingClock{}, stdio{os.Environ(), os.Stdin, os.Stdout, os.Stderr})
	return 0
}

func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	return nil
}
