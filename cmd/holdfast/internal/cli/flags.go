package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// withoutValue removes from an error of pflag what the user wrote, which may be a password in the wrong place.
func withoutValue(err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%s", unknown.GetSpecifiedName())
	case errors.As(err, &invalid):
		reason := invalid.Unwrap()
		switch number := new(strconv.NumError); {
		case !errors.As(reason, &number):
		case number.Func == "ParseBool":
			reason = errors.New("want true or false")
		default:
			reason = errors.New("want a number")
		}
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, reason)
	}
	return err
}

// serverFlags are the flags of commands that use servers.
type serverFlags struct {
	redis  []string
	prefix string
	strict bool
	maxTTL time.Duration
	lacks  string // why the command refuses a quorum; "" if it accepts one
	flags  *pflag.FlagSet

	servers *connect.Servers
	console *console.Console
}

// define defines the flags. about is the text of --redis.
func (o *serverFlags) define(f *pflag.FlagSet, about string) {
	o.flags, o.maxTTL = f, defaultStrictTTL
	f.StringArrayVar(&o.redis, "redis", nil, about)
	f.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with; env: HOLDFAST_PREFIX (default holdfast:)")
	o.prefix = os.Getenv("HOLDFAST_PREFIX")
}

// The texts of --redis for commands that also use a quorum, and for those that do not.
const (
	oneOrMore = "`URL` of the server, as for holdfast run; repeated for the nodes of a quorum"
	onlyOne   = "`URL` of the server, as for holdfast run; only one, a Cluster, or a master\nbehind Sentinel"
)

const (
	maxTTL = 24 * time.Hour
	// minTTL leaves time for a renewal, and for the keeper's margins, on a busy machine.
	minTTL = 500 * time.Millisecond
	// defaultStrictTTL is the longest lease in Strict mode unless --max-ttl says otherwise, as in the library.
	defaultStrictTTL = time.Minute
)

// defineStrict defines the flags of Strict mode. about is the text of --strict.
func (o *serverFlags) defineStrict(about string) {
	o.flags.BoolVar(&o.strict, "strict", false, about)
	o.flags.Var((*seconds)(&o.maxTTL), "max-ttl", "with --strict, the longest lease `DUR` of any program that uses the server")
}

// checkMaxTTL refuses --max-ttl without Strict mode, and one that is below ttl or too long.
func (o *serverFlags) checkMaxTTL(s *connect.Servers, ttl time.Duration) error {
	strict, of, or := o.strict || s.AreQuorum(), "", ""
	if o.flags.Lookup("ttl") != nil {
		of = " (--ttl)"
	}
	if o.lacks == "" {
		or = ", or several servers"
	}
	switch {
	case o.flags.Changed("max-ttl") && !strict:
		return exitcode.Configf("--max-ttl needs --strict%s", or)
	case strict && (o.maxTTL < ttl || o.maxTTL > maxTTL):
		return exitcode.Configf("--max-ttl %s: want %s%s to %s", o.maxTTL, ttl, of, maxTTL)
	}
	return nil
}

// checkTTL refuses a --ttl that is too short or too long.
func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return exitcode.Configf("--ttl %s: want %s to %s", ttl, minTTL, maxTTL)
	}
	return nil
}

// open makes clients of the servers, and a console that hides their passwords.
func (o *serverFlags) open(stderr io.Writer) (err error) {
	if o.servers, err = connect.OpenAll(o.redis); err != nil {
		return err
	}
	if err := o.checkOne(o.servers); err != nil {
		o.servers.Close()
		return err
	}
	o.console = console.New(stderr, console.Normal)
	o.console.Hide(o.servers.Secrets()...)
	warnOf(o.console, "instead", o.servers.All...)
	return nil
}

// checkOne refuses a quorum where it lacks something.
func (o *serverFlags) checkOne(s *connect.Servers) error {
	if o.lacks == "" || !s.AreQuorum() {
		return nil
	}
	return refuseQuorum(s, o.lacks)
}

// refuseQuorum says that several servers are named, and what a quorum lacks.
func refuseQuorum(s *connect.Servers, lacks string) error {
	return exitcode.Configf("%s names %d servers, a quorum, %s", s.Source, len(s.All), lacks)
}

// config is the configuration with which to use the locks of a prefix.
func (o *serverFlags) config(s *connect.Servers, prefix string) *holdfast.Config {
	if !o.strict && !s.AreQuorum() {
		return &holdfast.Config{MaxTTL: maxTTL, Prefix: prefix}
	}
	return &holdfast.Config{Strict: true, MaxTTL: o.maxTTL, TTL: min(15*time.Second, o.maxTTL), Prefix: prefix}
}

// use makes clients of the library for the servers that open has opened, and calls f, whose context a signal ends. It returns how to
// exit, and has told the user of errors of f without an exit code. It closes the servers.
func (o *serverFlags) use(ctx context.Context, cfg *holdfast.Config, f func(context.Context, *connect.Locks) error) error {
	defer o.servers.Close()
	cfg.Logger = o.console.Logger()
	locks, err := o.servers.Locks(cfg, 0)
	if err != nil {
		return err
	}
	defer locks.Close(connect.CloseTime)
	ctx, stop := signals.Context(ctx)
	defer stop()
	err = f(ctx, locks)
	var exit *exitcode.Error
	if err == nil || errors.As(err, &exit) {
		return err
	}
	if exit = interrupted(ctx); exit != nil {
		return exit
	}
	o.console.Error(o.servers.Explain(err))
	return &exitcode.Error{Code: exitcode.OfLibrary(err).Code}
}

// interrupted returns how to exit if a signal has ended ctx, or nil.
func interrupted(ctx context.Context) *exitcode.Error {
	var sig signals.Error
	if !errors.As(context.Cause(ctx), &sig) {
		return nil
	}
	return &exitcode.Error{Code: exitcode.OfLibrary(sig).Code}
}

// listenAddress completes HOST:PORT, on which to listen: without a host, or for localhost, it is 127.0.0.1. Its errors name the flag.
func listenAddress(flag, address, example string) (string, netip.Addr, error) {
	host, port, err := net.SplitHostPort(address)
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	ip, notIP := netip.ParseAddr(host)
	if err != nil || notIP != nil {
		return "", ip, exitcode.Usagef("--%s: want HOST:PORT, such as %s", flag, example)
	}
	return net.JoinHostPort(host, port), ip.Unmap(), nil
}

// codeOf is the exit code after an error of a command that names no lock: what is invalid then is the prefix.
func codeOf(err error) int {
	if errors.Is(err, holdfast.ErrInvalid) {
		return exitcode.Config
	}
	return exitcode.OfLibrary(err).Code
}

// printText writes a text. It returns how to exit if it cannot.
func printText(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return exitcode.OfOutput(err)
	}
	return nil
}

// printJSON writes a value as one line of JSON. It returns how to exit if it cannot.
func printJSON(w io.Writer, value any) error {
	line, err := output.JSON(value)
	if err != nil {
		return err
	}
	return printText(w, string(line))
}

// printResult writes a text or, if asJSON, a value. It returns how to exit if it cannot.
func printResult(w io.Writer, asJSON bool, value any, text string) error {
	if asJSON {
		return printJSON(w, value)
	}
	return printText(w, text)
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
