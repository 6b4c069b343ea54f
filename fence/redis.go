package fence

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// RedisConfig configures a Redis. A zero RedisConfig, or nil, stands for the defaults.
type RedisConfig struct {
	// MarkTTL is how long a mark is kept after it was last raised. Without a mark any fence is accepted, so MarkTTL must
	// be longer than a holder can possibly be late, even if its host is paused, suspended or restored from a snapshot. The
	// default, 0, keeps marks forever. MarkTTL does not shorten the life of a mark that another program keeps longer.
	MarkTTL time.Duration

	// Prefix begins the keys of marks. It must not contain braces. The default is "holdfast:mark:".
	Prefix string

	// MaxLead is how far a fence may be ahead of this process's clock. A fence that is further ahead is refused with
	// ErrAhead. Fences follow the lock server's clock, in µs, and raising a mark to a made-up fence would shut out all later
	// holders. Leave room for clocks that differ: the library itself allows a day. The default, 0, accepts any fence.
	MaxLead time.Duration
}

// Redis guards writes to Redis and Valkey, and keeps the marks there. A resource is a key, and its mark is in the same
// Cluster slot. The script that writes also compares and raises the mark. A mark is as durable as the server's data:
// after a failover or a restart that lost it, stale writers are let in.
//
// Redis runs on the master. After Raise, read from the master as well, since a replica may lag.
type Redis struct {
	driver    driver.Driver
	cfg       RedisConfig
	configErr error // what is wrong with cfg
}

// NewRedis returns a guard that uses a driver, such as holdfastgoredis.NewDriver returns. The driver may also be in use
// by a Client. NewRedis sends nothing. If cfg is invalid, the guard's methods return ErrInvalid.
func NewRedis(d driver.Driver, cfg *RedisConfig) *Redis {
	r := &Redis{driver: d}
	if cfg != nil {
		r.cfg = *cfg
	}
	if r.cfg.Prefix == "" {
		r.cfg.Prefix = "holdfast:mark:"
	}
	if _, err := keys.NewSpace(r.cfg.Prefix); err != nil {
		r.configErr = fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	if t := r.cfg.MarkTTL; t != 0 && t < time.Millisecond {
		r.configErr = fmt.Errorf("%w: MarkTTL is %s; it must be at least 1ms, or 0 to keep marks forever", holdfast.ErrInvalid, t)
	}
	return r
}

// Raise raises the mark of a key, and so shuts out all earlier holders. A new holder calls it before it reads anything.
// It returns a *StaleError if the key has seen a later holder.
func (r *Redis) Raise(ctx context.Context, s Stamp, key string) error {
	_, err := r.Run(ctx, raise, s, key, nil, nil)
	return err
}

// Set sets a key to a value that expires after ttl, or never if ttl is 0. If the key has seen a later holder, Set returns
// a *StaleError and changes nothing. After a network error the value may have been written, or may still be written.
// Set can be repeated safely.
func (r *Redis) Set(ctx context.Context, s Stamp, key, value string, ttl time.Duration) error {
	if ttl != 0 && ttl < time.Millisecond {
		return fmt.Errorf("%w: ttl is %s; it must be at least 1ms, or 0 for a value that never expires", holdfast.ErrInvalid, ttl)
	}
	_, err := r.Run(ctx, set, s, key, []string{key}, []string{value, milliseconds(ttl)})
	return err
}

// Run runs a script guarded by the mark of a resource, and returns its reply. In a Cluster the script's keys must be in
// the slot of the resource, which may be one of them. If the resource has seen a later holder, Run returns a *StaleError
// and the script does not run. If the script fails, what it wrote until then stays, as with any script. After a network
// error it may have run; whether it can be repeated depends on the script.
func (r *Redis) Run(ctx context.Context, script *Script, s Stamp, resource string, keys, args []string) (string, error) {
	mark, err := r.MarkKey(resource)
	if err == nil {
		err = s.within(r.cfg.MaxLead)
	}
	if err != nil {
		return "", err
	}
	sharing := "alone"
	if s.Shared {
		sharing = "shared"
	}
	keys = append(keys[:len(keys):len(keys)], mark)
	args = append(args[:len(args):len(args)], strconv.FormatUint(s.Fence, 10), s.Owner, sharing, milliseconds(r.cfg.MarkTTL))
	reply, err := r.driver.Run(ctx, driver.Call{Script: script.guarded, Keys: keys, Args: args})
	if err == nil {
		return reply, nil
	}
	var refusal driver.ReplyError
	if errors.As(err, &refusal) {
		switch code, rest, _ := strings.Cut(strings.TrimPrefix(string(refusal), "-"), " "); code {
		case "STALE":
			mark, err := parseMark(rest)
			if err != nil {
				return "", fmt.Errorf("%w for resource %q on %s", err, resource, r.driver.Addr())
			}
			return "", &StaleError{Resource: resource, Stamp: s, Mark: mark}
		case "BADMARK":
			return "", fmt.Errorf("%w: key %s for resource %q on %s", ErrBadMark, mark, resource, r.driver.Addr())
		}
	}
	return "", fmt.Errorf("holdfast: guarded write to %q on %s: %w", resource, r.driver.Addr(), err)
}

// MarkKey returns the key of a resource's mark.
func (r *Redis) MarkKey(resource string) (string, error) {
	if r.configErr != nil {
		return "", r.configErr
	}
	mark := r.cfg.Prefix + "{" + resource + "}"
	if strings.Contains(resource, "}") {
		// The resource has a hash tag, which must decide the mark's slot too.
		mark = r.cfg.Prefix + "tagged:" + resource
	}
	if resource == "" || keys.Slot(mark) != keys.Slot(resource) {
		return "", fmt.Errorf("%w: resource %q is empty or has braces that are not a Cluster hash tag, so its mark would be in another slot",
			holdfast.ErrInvalid, resource)
	}
	return mark, nil
}

// parseMark parses a mark as guard.lua stores it.
func parseMark(text string) (Mark, error) {
	fence, owner, _ := strings.Cut(text, " ")
	n, err := parseFence(fence)
	if err != nil || owner == "" {
		return Mark{}, fmt.Errorf("%w: %.64q", ErrBadMark, text)
	}
	return Mark{n, owner}, nil
}

// parseFence parses a fence, a decimal number without a sign or leading zeros.
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

//go:embed lua/*.lua
var files embed.FS

// Lua is the guard to put before a script that is run without Redis.Run, for example with another client or from another
// language. Its header says which KEYS and ARGV it takes; MarkKey returns the key. The script after it may return
// anything. A refusal is an error reply that begins with STALE.
var Lua = text("guard.lua")

// Script is a guarded Lua script: it runs only if its resource has not seen a later lease.
type Script struct{ guarded driver.Script }

var (
	raise = NewScript("")
	set   = NewScript(text("set.lua"))
)

// NewScript returns a guarded script with this source, which finds its own KEYS and ARGV as usual. Redis.Run returns its
// reply as text: a string, number or status as it is, no reply as "", and other tables as JSON.
func NewScript(source string) *Script {
	whole := Lua + text("begin.lua") + strings.TrimSuffix(source, "\n") + "\n" + text("end.lua")
	return &Script{driver.NewScript("guarded", whole)}
}

// text returns the contents of an embedded file.
func text(file string) string {
	b, err := files.ReadFile("lua/" + file)
	if err != nil {
		panic("fence: " + err.Error())
	}
	return string(b)
}
