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
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
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

// chooseOne refuses two of these flags at once.
func chooseOne(f *pflag.FlagSet, names ...string) error {
	var given []string
	for _, name := range names {
		if f.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return exitcode.Usagef("%s: choose one", strings.Join(given, " and "))
	}
	return nil
}

const (
	maxTTL = 24 * time.Hour
	// minTTL leaves time for a renewal, and for the keeper's margins, on a busy machine.
	minTTL = 500 * time.Millisecond
)

// serverFlags are the flags of commands that use servers.
type serverFlags struct {
	lacks string        // why the command refuses a quorum; "" if it accepts one. Set it before define
	role  string        // in docs/SECURITY.md, which has the rights that the command needs
	by    string        // who acts, for the record; "" for the library's default
	ttl   time.Duration // the longest lease of the command
	level console.Level

	flags  *pflag.FlagSet
	redis  []string
	prefix string
	strict bool
	maxTTL time.Duration
	json   bool

	servers *connect.Servers
	console *console.Console
}

// define defines the flags that name the servers.
func (o *serverFlags) define(f *pflag.FlagSet) {
	o.flags, o.maxTTL = f, time.Minute // as in the library
	which := "repeated for the nodes of a quorum"
	if o.lacks != "" {
		which = "only one"
	}
	f.StringArrayVar(&o.redis, "redis", nil,
		"`URL` of the server, as in holdfast help run; "+which+" (default HOLDFAST_REDIS, REDIS_URL, or "+connect.Default+")")
	f.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with (default HOLDFAST_PREFIX, or holdfast:)")
	o.prefix = os.Getenv("HOLDFAST_PREFIX")
}

func (o *serverFlags) defineJSON() {
	o.flags.BoolVar(&o.json, "json", false, "print JSON, one object a line")
}

func (o *serverFlags) defineStrict() {
	o.flags.BoolVar(&o.strict, "strict", false, "Strict mode, for servers that holdfast init has admitted: no two holders even if "+
		"the server loses its data; afterwards it grants nothing for --max-ttl. The same for all who use NAME")
	o.flags.Var((*seconds)(&o.maxTTL), "max-ttl", "with --strict, the longest lease `DUR` of any program that uses the server")
}

// checkTTL refuses a --ttl that is too short or too long.
func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return exitcode.Configf("--ttl %s: want %s to %s", ttl, minTTL, maxTTL)
	}
	return nil
}

// open makes clients of the servers, and a console that hides their passwords. It does no I/O.
func (o *serverFlags) open(stderr io.Writer) (err error) {
	if o.servers, err = connect.OpenAll(o.redis); err != nil {
		return err
	}
	if err := o.checkServers(); err != nil {
		o.servers.Close()
		return err
	}
	o.console = console.New(stderr, o.level)
	o.console.Hide(o.servers.Secrets()...)
	warnOf(o.console, "instead", o.servers.All...)
	return nil
}

// checkServers refuses a quorum where it lacks something, and --max-ttl without Strict mode or out of bounds.
func (o *serverFlags) checkServers() error {
	strict, least := o.strict || o.servers.AreQuorum(), max(o.ttl, minTTL)
	switch {
	case o.lacks != "" && o.servers.AreQuorum():
		return exitcode.Configf("%s names %d servers, a quorum, %s", o.servers.Source, len(o.servers.All), o.lacks)
	case o.flags.Changed("max-ttl") && !strict:
		return exitcode.Configf("--max-ttl needs --strict, or several servers")
	case strict && (o.maxTTL < least || o.maxTTL > maxTTL):
		return exitcode.Configf("--max-ttl %s: want %s, the longest lease of this command, to %s", o.maxTTL, least, maxTTL)
	}
	return nil
}

// config is the configuration with which to use the locks.
func (o *serverFlags) config() *holdfast.Config {
	if !o.strict && !o.servers.AreQuorum() {
		return &holdfast.Config{MaxTTL: maxTTL, Prefix: o.prefix, Identity: o.by}
	}
	return &holdfast.Config{Strict: true, MaxTTL: o.maxTTL, TTL: min(15*time.Second, o.maxTTL), Prefix: o.prefix, Identity: o.by}
}

// use opens the servers, makes clients of the library, and calls f, whose context a signal ends. It tells the user of f's error, and
// returns how to exit.
func (o *serverFlags) use(ctx context.Context, stderr io.Writer, f func(context.Context, *connect.Locks) error) error {
	if err := o.open(stderr); err != nil {
		return err
	}
	defer o.servers.Close()
	cfg := o.config()
	cfg.Logger = o.console.Logger()
	locks, err := o.servers.Locks(cfg, 0)
	if err != nil {
		return err
	}
	defer locks.Close(connect.CloseTime)
	ctx, stop := signals.Context(ctx)
	defer stop()
	err = f(ctx, locks)
	if err == nil {
		return nil
	}
	exit := o.exit(ctx, err)
	if exit.Err != nil {
		o.console.Error(exit.Err)
	}
	return &exitcode.Error{Code: exit.Code}
}

// inspect is use for commands that look at locks, of whatever kind.
func (o *serverFlags) inspect(ctx context.Context, stderr io.Writer, f func(context.Context, *inspect.Inspector) error) error {
	return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error { return f(ctx, locks.Inspector()) })
}

// exit returns how to exit after an error, and says what to do about it.
func (o *serverFlags) exit(ctx context.Context, err error) *exitcode.Error {
	var exit *exitcode.Error
	if errors.As(err, &exit) {
		return exit
	}
	if exit = interrupted(ctx); exit != nil {
		return exit
	}
	exit = exitcode.OfLibrary(err)
	exit.Err = o.servers.Explain(err)
	var server *holdfast.ServerError
	if errors.As(err, &server) && server.Code == "NOPERM" && o.role != "" {
		exit.Err = fmt.Errorf("%w; the role %s in docs/SECURITY.md has what this needs", exit.Err, o.role)
	} else if next := advice(err); next != "" {
		exit.Err = fmt.Errorf("%w; %s", exit.Err, next)
	}
	return exit
}

// advice says what to do after an error, in the words of the command. It returns "" for those that say so themselves.
func advice(err error) string {
	var server *holdfast.ServerError
	switch {
	case !errors.As(err, &server):
	case server.Code == "BADLIMIT":
		return "give --slots the number that the other runs give, or change it for all with holdfast resize"
	case server.Code == "BADPARTIES":
		return "give the N that the others give, or start the latch over with another: holdfast latch NAME N reset"
	}
	return ""
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

// maxSlots is the most permits that a semaphore has, and the most parties that a latch has.
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
