package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// systemClock is CLOCK_BOOTTIME, which all processes share, and which goes on while the machine sleeps.
type systemClock struct{}

func (systemClock) now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("holdfast: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39.
	}
	return instant(ts.Nano())
}

func (systemClock) newAlarm() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &timer{make(chan struct{}, 1), os.NewFile(uintptr(fd), "timer")}
	go func() {
		buf := make([]byte, 8)
		for {
			if _, err := a.f.Read(buf); err != nil {
				return
			}
			select {
			case a.c <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// timer is an alarm made of a timerfd.
type timer struct {
	c chan struct{}
	f *os.File
}

func (a *timer) rings() <-chan struct{} { return a.c }

func (a *timer) set(at instant) {
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0)))}
	raw, err := a.f.SyscallConn()
	if err != nil {
		return // Closed.
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, spec, nil)
	})
}

func (a *timer) close() { a.f.Close() }
