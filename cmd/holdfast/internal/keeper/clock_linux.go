package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// now reads a clock that all processes share and that does not stop while the
// machine sleeps.
func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("holdfast: CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39.
	}
	return instant(ts.Nano())
}

// alarm rings at an instant; at once, if the machine slept past it.
type alarm struct {
	c chan struct{}
	f *os.File
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{make(chan struct{}, 1), os.NewFile(uintptr(fd), "timer")}
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

// set replaces the instant; 0 means never.
func (a *alarm) set(at instant) {
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0)))}
	raw, err := a.f.SyscallConn()
	if err != nil {
		return // Closed.
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, spec, nil)
	})
}

func (a *alarm) close() { a.f.Close() }
