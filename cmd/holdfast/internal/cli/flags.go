package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// newFlags returns the flags of a command, which are listed in the order of their definition and print nothing by
// themselves.
func newFlags(command string) *pflag.FlagSet {
	f := pflag.NewFlagSet(command, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parse parses a command line.
func parse(f *pflag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return exitcode.Usagef("%w; see holdfast help %s", withoutValue(err), f.Name())
	}
	return nil
}

// parseOnlyFlags parses a command line without arguments.
func parseOnlyFlags(f *pflag.FlagSet, args []string) error {
	if err := parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return exitcode.Usagef("holdfast %s takes no arguments; see holdfast help %[1]s", f.Name())
	}
	return nil
}

// withoutValue removes from an error of pflag what the user wrote, which may be a password in the wrong place.
func withoutValue(err error) error {
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

// serverFlags are the flags of commands that only use servers.
type serverFlags struct {
	redis  []string
	prefix string
	flags  *pflag.FlagSet
}

func newServerFlags(command string) serverFlags { return serverFlags{flags: newFlags(command)} }

// define defines the flags. about is the text of --redis.
func (o *serverFlags) define(about string) {
	o.flags.StringArrayVar(&o.redis, "redis", nil, about)
	o.flags.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with; env: HOLDFAST_PREFIX (default holdfast:)")
	o.prefix = os.Getenv("HOLDFAST_PREFIX")
}

// oneOrMore is the text of --redis for commands that also use a quorum.
const oneOrMore = "`URL` of the server, as for holdfast run; repeated for the nodes of a quorum"

// open makes clients of the servers, and a console that hides their passwords.
func (o *serverFlags) open(stderr io.Writer) (*connect.Servers, *console.Console, error) {
	s, err := connect.OpenAll(o.redis)
	if err != nil {
		return nil, nil, err
	}
	c := console.New(stderr, console.Normal)
	c.Hide(s.Secrets()...)
	warnOf(c, "instead", s.All...)
	return s, c, nil
}

// warnOf warns of what is unsafe about the connections to servers. See connect.Warnings.
func warnOf(c *console.Console, remedy string, servers ...*connect.Server) {
	for _, warning := range connect.Warnings(remedy, servers...) {
		c.Warnf("%s", warning)
	}
}

// seconds is a duration that may be given as a number of seconds, as for flock(1) and timeout(1).
type seconds time.Duration

func (s *seconds) String() string {
	if *s == 0 {
		return "0" // so that no default is shown
	}
	return time.Duration(*s).String()
}

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseFloat(text, 64); nerr == nil && n < 1e9 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("want a time such as 90s, 1m30s, or a number of seconds")
	}
	*s = seconds(d)
	return nil
}

// count is a number from 1 to maxSlots; 0 if it was not given.
type count int

// maxSlots is the most permits that a semaphore has.
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

// numbers is a list of numbers, sorted and without duplicates.
type numbers struct {
	values    []int
	most, max int // how many there may be, and the highest
}

func (n *numbers) Type() string { return "list" }

func (n *numbers) String() string {
	var all []string
	for _, v := range n.values {
		all = append(all, strconv.Itoa(v))
	}
	return strings.Join(all, ",")
}

func (n *numbers) Set(text string) error {
	var all []int
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || v < 1 || v > n.max || len(all) == n.most {
			return fmt.Errorf("want up to %d numbers from 1 to %d, separated by commas", n.most, n.max)
		}
		all = append(all, v)
	}
	slices.Sort(all)
	n.values = slices.Compact(all)
	return nil
}
