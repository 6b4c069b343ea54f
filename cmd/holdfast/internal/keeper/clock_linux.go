package keeper

import (
	"os"
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

type timer struct {
	c chan struct{}
	f *os.File
}

func (a *timer) rings() <-chan struct{} { return a.c }

func (a *timer) set(at instant) {
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0)))}
	raw, err := a.f.SyscallConn()
	if err != nil {
		return // the timer is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, spec, nil)
	})
}

func (a *timer) close() { a.f.Close() }

// wakingClock is the keeper's clock. Its alarms continue a stopped keeper.
type wakingClock struct{ systemClock }

func (c wakingClock) newAlarm() (alarm, error) {
	a, err := c.systemClock.newAlarm()
	if err != nil {
		return nil, err
	}
	event := sigevent{signal: int32(unix.SIGCONT)}
	w := &wakingAlarm{alarm: a}
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&w.id))); errno != 0 {
		a.close()
		return nil, os.NewSyscallError("timer_create", errno)
	}
	return w, nil
}

// sigevent is C's struct sigevent. notify is SIGEV_SIGNAL, which is 0.
type sigevent struct {
	value          uintptr
	signal, notify int32
	_              [56 - unsafe.Sizeof(uintptr(0))]byte
}

// wakingAlarm is an alarm with a timer that sends SIGCONT.
type wakingAlarm struct {
	alarm
	id int32
}

func (w *wakingAlarm) set(at instant) {
	w.alarm.set(at)
	// The timer repeats, in case the process is stopped again before it acts.
	interval := instant(0)
	if at != 0 {
		interval = second / 10
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0))), Interval: unix.NsecToTimespec(int64(interval))}
	// It cannot fail with this timer and a valid time.
	_, _, _ = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(w.id), unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (w *wakingAlarm) close() {
	w.set(0)
	w.alarm.close()
}
