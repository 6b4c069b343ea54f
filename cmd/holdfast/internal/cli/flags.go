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
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// withoutValue removes the user's text from an error of pflag: it may be a misplaced password.
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

// chooseOne returns an error if more than one of these flags is given.
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
	// minTTL leaves time for a renewal and for the keeper's margins, even on a busy machine.
	minTTL = 500 * time.Millisecond
)

// serverFlags are the flags of commands that use servers.
type serverFlags struct {
	lacks string        // why the command refuses a quorum; "" if it accepts one. It is set before define is called
	role  string        // the role in docs/SECURITY.md that has the rights which the command needs
	by    string        // the client's identity; "" for the library's default
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

// define defines the flags that name the servers and the prefix.
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

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return exitcode.Usagef("--ttl %s: want %s to %s", ttl, minTTL, maxTTL)
	}
	return nil
}

// open makes clients of the servers, and checks that the flags fit them. It does no I/O.
func (o *serverFlags) open(c *console.Console) (err error) {
	if o.servers, err = connect.OpenAll(o.redis); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			o.servers.Close()
		}
	}()
	o.console = c
	o.servers.Introduce(c)
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

func (o *serverFlags) config() *holdfast.Config {
	if !o.strict && !o.servers.AreQuorum() {
		return &holdfast.Config{MaxTTL: maxTTL, Prefix: o.prefix, Identity: o.by}
	}
	return &holdfast.Config{Strict: true, MaxTTL: o.maxTTL, TTL: min(15*time.Second, o.maxTTL), Prefix: o.prefix, Identity: o.by}
}

// use opens the servers, makes clients of the library, and calls f with a context that a signal ends. It writes f's error, and returns
// only its exit code.
func (o *serverFlags) use(ctx context.Context, stderr io.Writer, f func(context.Context, *connect.Locks) error) error {
	if err := o.open(console.New(stderr, o.level)); err != nil {
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
	ctx, stop := terminal.Context(ctx)
	defer stop()
	if err = f(ctx, locks); err == nil {
		return nil
	}
	return &exitcode.Error{Code: o.console.Exit(o.exit(ctx, err))}
}

// inspect is use for commands that need an inspector.
func (o *serverFlags) inspect(ctx context.Context, stderr io.Writer, f func(context.Context, *inspect.Inspector) error) error {
	return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error { return f(ctx, locks.Inspector()) })
}

// exit gives an error its exit code, and adds what the user should do. If a signal has ended ctx, it returns the signal's code instead.
func (o *serverFlags) exit(ctx context.Context, err error) *exitcode.Error {
	var exit *exitcode.Error
	if errors.As(err, &exit) {
		return exit
	}
	if sig := context.Cause(ctx); errors.As(sig, new(terminal.SignalError)) {
		return &exitcode.Error{Code: exitcode.OfLibrary(sig).Code}
	}
	exit = exitcode.OfLibrary(err)
	exit.Err = o.servers.Explain(err)
	var server *holdfast.ServerError
	if errors.As(err, &server) && server.Code == "NOPERM" && o.role != "" {
		exit.Err = fmt.Errorf("%w; the role %s in docs/SECURITY.md has what this needs", exit.Err, o.role)
	}
	return exit
}

// listenAddress completes a HOST:PORT on which to listen. If the host is missing or localhost, it becomes 127.0.0.1. Errors name the flag.
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

// seconds is a duration, or a number of seconds as in flock(1) and timeout(1).
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

// count is a number from 1 to maxSlots; 0 if the flag is not given.
type count int

// maxSlots is the maximum number of a semaphore's permits, and of a latch's parties.
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
