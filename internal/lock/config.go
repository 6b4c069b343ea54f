package lock

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Config holds the parts of holdfast.Config that locks need; the public type documents them. Zero fields mean the defaults.
type Config struct {
	CommandTimeout  time.Duration
	IgnoreDeadlocks bool
	LocalHandovers  int // MaxLocalHandovers
	Logger          *slog.Logger
	MaxTTL          time.Duration
	Observer        *Observer // nil: none
	Owner           string
	Prefix          string
	Quarantine      time.Duration
	RetryTimeout    time.Duration
	Strict          bool
	TTL             time.Duration
	ViaClient       bool
}

// DefaultCommandTimeout is the default of Config.CommandTimeout.
const DefaultCommandTimeout = 2 * time.Second

// fill sets the defaults and refuses values that make no sense.
func (c *Config) fill(host string) error {
	maxTTL := 24 * time.Hour
	if c.Strict {
		maxTTL = time.Minute
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"CommandTimeout", &c.CommandTimeout, DefaultCommandTimeout},
		{"MaxTTL", &c.MaxTTL, maxTTL},
		{"RetryTimeout", &c.RetryTimeout, 3 * time.Second},
		{"TTL", &c.TTL, min(15*time.Second, cmp.Or(c.MaxTTL, maxTTL))},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < kind.MinTTL {
			return fmt.Errorf("the value of Config.%s is %s; it must be at least %s", d.name, *d.value, kind.MinTTL)
		}
		if *d.value > MaxMaxTTL {
			return fmt.Errorf("the value of Config.%s is %s; it must be at most %s", d.name, *d.value, MaxMaxTTL)
		}
	}
	if c.TTL > c.MaxTTL {
		return fmt.Errorf("Config.TTL is %s, which is more than MaxTTL, %s", c.TTL, c.MaxTTL)
	}
	switch {
	case c.Quarantine != 0 && !c.Strict:
		return errors.New("Config.Quarantine is for Strict mode only")
	case c.Quarantine != 0 && c.Quarantine < c.MaxTTL:
		return fmt.Errorf("Config.Quarantine is %s, which is less than MaxTTL, %s: leases could outlive it", c.Quarantine, c.MaxTTL)
	case c.Quarantine > 2*MaxMaxTTL:
		return fmt.Errorf("Config.Quarantine is %s; it must be at most %s", c.Quarantine, 2*MaxMaxTTL)
	}
	if c.LocalHandovers == 0 {
		c.LocalHandovers = 64
	}
	if c.Prefix == "" {
		c.Prefix = "holdfast:"
	}
	if c.Owner == "" {
		c.Owner = host + ":" + strconv.Itoa(os.Getpid()) + ":" + RandomText()[:4]
	}
	return nil
}

// MaxMaxTTL bounds Config.MaxTTL so that clocks, and Lua counting milliseconds, can represent TTLs and sums of timeouts.
const MaxMaxTTL = 10 * 365 * 24 * time.Hour

// strictFlags returns the flags that incarnation.lua reads.
func (c *Config) strictFlags() codec.Flags {
	switch {
	case !c.Strict:
		return ""
	case c.Quarantine > 0:
		return codec.Strict(c.Quarantine, 0)
	}
	return codec.Strict(c.MinQuarantine(), replicaLag)
}

// MinQuarantine returns the shortest quarantine of a server in Strict mode.
func (c *Config) MinQuarantine() time.Duration { return cmp.Or(c.Quarantine, c.MaxTTL) }

// replicaLag is how long a master may go on granting locks without its replicas: min-replicas-max-lag, by default 10 s, and up to 2 s more,
// since the server counts whole seconds and checks once a second.
const replicaLag = 13 * time.Second
