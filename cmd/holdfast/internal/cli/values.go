package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// plain is an error of pflag's without what the user wrote, which may be a
// password that landed in the wrong place.
func plain(err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%s", unknown.GetSpecifiedName())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	}
	return err
}

// span is a duration that may be a plain number of seconds, as in flock(1) and
// timeout(1).
type span time.Duration

func (s *span) String() string {
	if *s == 0 {
		return "0" // for which no default is shown
	}
	return time.Duration(*s).String()
}

func (s *span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseFloat(text, 64); nerr == nil && n < 1e9 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("want a time such as 90s, 1m30s, or a number of seconds")
	}
	*s = span(d)
	return nil
}

// count is a number from 1 on; 0 if none was given. maxSlots, the permits of a semaphore,
// bounds it.
type count int

const maxSlots = 1_000_000

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Type() string { return "int" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots {
		return fmt.Errorf("want a number from 1 to %d", maxSlots)
	}
	*c = count(n)
	return nil
}
