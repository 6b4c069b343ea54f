package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// defaultConfirmation bounds the wait for replicas, defaultSync the wait for disks. With appendfsync
// everysec a server starts to write to its disk once a second, and notices up to 0.1 s late that
// the write is done. The whole call has CommandTimeout, and its reply comes up to 0.1 s after the
// wait is over.
const (
	defaultConfirmation = time.Second
	defaultSync         = 1700 * time.Millisecond
)

// isDurable reports whether replicas or disks have to confirm writes.
func (s *settings) isDurable() bool { return s.replicas != 0 || s.fsync }

// durability returns what the settings demand of a write that may take commandTimeout.
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
		return fmt.Errorf("the timeout of MinReplicas is %s; it must be between 1ms and %s (Config.CommandTimeout)", s.confirmation, commandTimeout)
	}
	return nil
}
