package keeper

// clock is what a parent and its keeper go by. Production has systemClock; tests have one
// of virtual time.
type clock interface {
	now() instant
	newAlarm() (alarm, error)
}

// alarm rings at an instant: at once if that is in the past, or if the machine slept past it.
type alarm interface {
	set(at instant) // replaces the instant; 0 means never
	rings() <-chan struct{}
	close()
}
