package keeper

import (
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemClock is CLOCK_BOOTTIME, which all processes share, and which advances while the machine sleeps.
type systemClock struct{}

func (systemClock) now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("holdfast: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39.
	}
	return instant(ts.Nano())
}

// newAlarm returns an alarm that sends SIGCONT to this process, which continues a stopped keeper. Any other SIGCONT rings it, too.
func (systemClock) newAlarm() (alarm, error) {
	a := &timer{c: make(chan os.Signal, 1)}
	event := sigevent{signal: int32(unix.SIGCONT)}
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.id))); errno != 0 {
		return nil, os.NewSyscallError("timer_create", errno)
	}
	signal.Notify(a.c, unix.SIGCONT)
	return a, nil
}

// sigevent is C's struct sigevent. notify is SIGEV_SIGNAL, which is 0.
type sigevent struct {
	value          uintptr
	signal, notify int32
	_              [56 - unsafe.Sizeof(uintptr(0))]byte
}

type timer struct {
	c  chan os.Signal
	id int32
}

func (a *timer) rings() <-chan os.Signal { return a.c }

func (a *timer) set(at instant) {
	// The timer repeats, in case the process is stopped again before it acts.
	interval := instant(0)
	if at != 0 {
		interval = second / 10
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0))), Interval: unix.NsecToTimespec(int64(interval))}
	// It cannot fail with this timer and a valid time.
	_, _, _ = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(a.id), unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (a *timer) close() {
	a.set(0)
	signal.Stop(a.c)
}
