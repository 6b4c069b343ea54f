package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// defaultConfirmation bounds how long replicas are waited for; defaultSync, how long disks are.
// With appendfsync everysec a server begins to write to its disk once in a second, and notices up to 0.1 s
// later that it is done. The call, of which this is a part, has CommandTimeout, and is answered
// up to 0.1 s after this is over.
const (
	defaultConfirmation = time.Second
	defaultSync         = 1700 * time.Millisecond
)

// isDurable reports whether replicas, or disks, have to confirm what is written.
func (s *settings) isDurable() bool { return s.replicas != 0 || s.fsync }

// durability is what the settings want of a write that takes no longer than commandTimeout.
func (s *settings) durability(commandTimeout time.Duration) driver.Durability {
	d := driver.Durability{Replicas: s.replicas, Fsync: s.fsync, Timeout: s.confirmation}
	switch {
	case d.Timeout != 0:
	case s.fsync:
		d.Timeout = max(min(defaultSync, commandTimeout*17/20), time.Millisecond)
	default:
		d.Timeout = min(defaultConfirmation, commandTimeout)
	}
	return d
}

func (s *settings) checkDurability(commandTimeout time.Duration) error {
	switch {
	case s.replicas < 0:
		return errors.New("the number of replicas is negative")
	case s.confirmation != 0 && (s.confirmation < time.Millisecond || s.confirmation > commandTimeout):
		return fmt.Errorf("the timeout of MinReplicas is %s; from 1ms to %s is allowed (Config.CommandTimeout)", s.confirmation, commandTimeout)
	}
	return nil
}
