package keeper

// clock is what a parent and its keeper go by. Tests have one of virtual time.
type clock interface {
	now() instant
	newAlarm() (alarm, error)
}

// alarm rings at an instant, or at once if that has passed, even while the machine slept.
type alarm interface {
	set(at instant) // replaces the instant; 0 means never
	rings() <-chan struct{}
	close()
}
