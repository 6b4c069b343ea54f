package keeper

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wakingClock is the keeper's clock. Its alarms continue this process if it is stopped.
type wakingClock struct{ systemClock }

func (c wakingClock) newAlarm() (alarm, error) {
	a, err := c.systemClock.newAlarm()
	if err != nil {
		return nil, err
	}
	event := sigevent{signal: int32(unix.SIGCONT)}
	w := &wakingAlarm{alarm: a}
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&w.id))); errno != 0 {
		a.close()
		return nil, os.NewSyscallError("timer_create", errno)
	}
	return w, nil
}

// sigevent is struct sigevent, with notify SIGEV_SIGNAL, which is 0.
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
	// The timer repeats, in case the process is stopped again before it has acted.
	interval := instant(0)
	if at != 0 {
		interval = second / 10
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0))), Interval: unix.NsecToTimespec(int64(interval))}
	// It cannot fail for this timer and this time.
	_, _, _ = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(w.id), unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (w *wakingAlarm) close() {
	w.set(0)
	w.alarm.close()
}
