package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// RedisConfig changes a Redis. Its zero value, and nil, mean the defaults below.
type RedisConfig struct {
	// MarkTTL is how long a mark is kept after it was last raised. Once it is gone, any
	// fence is taken: it has to be longer than a holder could possibly be late,
	// with its host paused, suspended or restored from a snapshot. Default: for ever.
	// A mark that another program keeps for longer stays for as long.
	MarkTTL time.Duration

	// Prefix begins the keys of marks. It has no braces. Default "holdfast:mark:".
	Prefix string

	// MaxLead is by how much a fence may lead this process's clock. What leads it by more is refused with
	// ErrAhead: fences follow the lock server's clock, in µs, and a mark that somebody raised to one that was made up
	// would shut out all holders after it. Leave room for clocks that differ: the library itself takes a
	// day. Default 0: any.
	MaxLead time.Duration
}

// Redis guards writes to Redis and Valkey, and keeps marks there. A mark lies in the
// Cluster slot of its resource, which is a key, and is compared and raised in the script
// that writes. It is as durable as the server's data: after a failover or a restart that
// lost the mark, a stale writer is let in.
//
// What Redis reads itself, it reads on the master. Do the same after Raise: a replica may
// lag.
type Redis struct {
	driver driver.Driver
	cfg    RedisConfig
	space  error // what is wrong with the configuration
}

// NewRedis returns a guard that works through an adapter, such as holdfastgoredis.New
// returns; it may be that of a Client. Nothing is sent; a bad configuration shows as
// ErrInvalid when it is used.
func NewRedis(d driver.Driver, cfg *RedisConfig) *Redis {
	r := &Redis{driver: d}
	if cfg != nil {
		r.cfg = *cfg
	}
	if r.cfg.Prefix == "" {
		r.cfg.Prefix = "holdfast:mark:"
	}
	if _, err := keys.NewSpace(r.cfg.Prefix); err != nil {
		r.space = fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	if t := r.cfg.MarkTTL; t != 0 && t < time.Millisecond {
		r.space = fmt.Errorf("%w: a MarkTTL of %s; at least 1ms, or 0 for ever", holdfast.ErrInvalid, t)
	}
	return r
}

// Raise raises the mark of a key, and so shuts out all earlier holders. A new holder does
// this before it reads anything. It returns a *StaleError when a later one has been there.
func (r *Redis) Raise(ctx context.Context, s Stamp, key string) error {
	_, err := r.eval(ctx, raise, s, key, nil, nil)
	return err
}

// Set sets a key to a value, for a time to live or, if that is 0, for ever. It returns a
// *StaleError, and changes nothing, when a later holder has been there. After an error of
// the way to the server the value may have been written, or may still be; to repeat Set is
// safe.
func (r *Redis) Set(ctx context.Context, s Stamp, key, value string, ttl time.Duration) error {
	if ttl != 0 && ttl < time.Millisecond {
		return fmt.Errorf("%w: a time to live of %s; at least 1ms, or 0 for ever", holdfast.ErrInvalid, ttl)
	}
	_, err := r.eval(ctx, set, s, key, []string{key}, []string{value, milliseconds(ttl)})
	return err
}

// Run runs a script under the mark of a resource, and returns its reply. In a Cluster the
// script's keys lie in the slot of the resource, which may be one of them. It returns a
// *StaleError, and the script does not run, when a later holder has been there. When the
// script itself fails, what it wrote before stays, as with any script. After an error of
// the way to the server it may have run; whether it may be repeated is for the script to
// say.
func (r *Redis) Run(ctx context.Context, script *Script, s Stamp, resource string, keys, args []string) (string, error) {
	return r.eval(ctx, script.guarded, s, resource, keys, args)
}

// MarkKey returns the key of a resource's mark.
func (r *Redis) MarkKey(resource string) (string, error) {
	if r.space != nil {
		return "", r.space
	}
	mark := r.cfg.Prefix + "{" + resource + "}"
	if strings.Contains(resource, "}") {
		// A hash tag of its own decides its slot.
		mark = r.cfg.Prefix + "tagged:" + resource
	}
	if resource == "" || keys.Slot(mark) != keys.Slot(resource) {
		return "", fmt.Errorf("%w: resource %q is empty, or has braces that are not a Cluster hash tag: its mark would lie in another slot",
			holdfast.ErrInvalid, resource)
	}
	return mark, nil
}

func (r *Redis) eval(ctx context.Context, script driver.Script, s Stamp, resource string, keys, args []string) (string, error) {
	mark, err := r.MarkKey(resource)
	if err == nil {
		err = s.within(r.cfg.MaxLead)
	}
	if err != nil {
		return "", err
	}
	all := append(keys[:len(keys):len(keys)], mark)
	tail := append(args[:len(args):len(args)], strconv.FormatUint(s.Fence, 10), s.Owner, s.beside(), milliseconds(r.cfg.MarkTTL))
	reply, err := r.driver.Run(ctx, driver.Call{Script: script, Keys: all, Args: tail})
	if err == nil {
		return reply, nil
	}
	var refusal driver.ReplyError
	if errors.As(err, &refusal) {
		switch word, rest, _ := strings.Cut(strings.TrimPrefix(string(refusal), "-"), " "); word {
		case "STALE":
			mark, err := parseMark(rest)
			if err != nil {
				return "", fmt.Errorf("%w: %q on %s", err, resource, r.driver.Addr())
			}
			return "", &StaleError{Resource: resource, Stamp: s, Mark: mark}
		case "BADMARK":
			return "", fmt.Errorf("%w: %s of %q on %s", ErrBadMark, mark, resource, r.driver.Addr())
		}
	}
	return "", fmt.Errorf("holdfast: guarded write to %q on %s: %w", resource, r.driver.Addr(), err)
}

// parseMark reads a mark as guard.lua keeps it.
func parseMark(text string) (Mark, error) {
	fence, owner, _ := strings.Cut(text, " ")
	n, err := parseFence(fence)
	if err != nil || owner == "" {
		return Mark{}, fmt.Errorf("%w: %.64q", ErrBadMark, text)
	}
	return Mark{n, owner}, nil
}

// parseFence reads a fence: a decimal number without sign or leading zeros.
func parseFence(text string) (uint64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%.32q is not a fence", text)
	}
	return uint64(n), nil
}

// milliseconds returns d in whole milliseconds, rounded up.
func milliseconds(d time.Duration) string {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return strconv.FormatInt(ms, 10)
}
