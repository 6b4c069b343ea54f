package cli

import (
	"io"

	"github.com/spf13/pflag"
)

// newFlags returns the flags of a command, listed as they are defined. They print
// nothing by themselves.
func newFlags(command string) *pflag.FlagSet {
	f := pflag.NewFlagSet(command, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// serverOptions are the flags that commands about a server share.
type serverOptions struct {
	redis  []string
	prefix string
	flags  *pflag.FlagSet
}

func (o *serverOptions) define(command string) *pflag.FlagSet {
	o.flags = newFlags(command)
	o.flags.StringArrayVar(&o.redis, "redis", nil, "`URL` of the server, as for holdfast run; repeated for the nodes of a quorum")
	o.flags.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with (default holdfast:)")
	return o.flags
}

// parse reads a command line, in which there is nothing but flags.
func (o *serverOptions) parse(args []string) error {
	if err := o.flags.Parse(args); err != nil {
		return usageError("%w; see holdfast help %s", plain(err), o.flags.Name())
	}
	if o.flags.NArg() > 0 {
		return usageError("holdfast %s takes no arguments; see holdfast help %[1]s", o.flags.Name())
	}
	return nil
}

// open makes clients of the servers, and a voice that does not show their passwords.
func (o *serverOptions) open(stderr io.Writer) (*servers, *voice, error) {
	s, err := openServers(o.redis)
	if err != nil {
		return nil, nil, err
	}
	v := &voice{w: stderr, secrets: s.secrets()}
	warnOf(v, "instead", s.all...)
	return s, v, nil
}
