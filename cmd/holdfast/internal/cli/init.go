package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// defaultStrictTTL is the longest lease in Strict mode unless --max-ttl says so: the
// library's own default.
const defaultStrictTTL = time.Minute

// initOptions are the flags of holdfast init.
type initOptions struct {
	serverOptions
	maxTTL time.Duration
	force  bool
}

func newInitOptions() *initOptions {
	o := &initOptions{maxTTL: defaultStrictTTL}
	f := o.define("init")
	f.Var((*span)(&o.maxTTL), "max-ttl", "the longest lease `DUR` of any program that uses the server: Config.MaxTTL")
	f.BoolVar(&o.force, "force", false, "end a quarantine: only if no lease of before is still believed in")
	return o
}

func initHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast init [flags]

Admits a new server to Strict mode (Config.Strict, holdfast run --strict), so that
it grants locks at once and not after a quarantine. Run it once, by hand. Do not run
it whenever the server starts: one that has lost its data looks like a new one.

A server that is known already, and has come back, is in quarantine for --max-ttl:
locks that it may have lost can still be held until then. --force ends that.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Exit codes: 0 ready, %d in quarantine, %d usage, %d unreachable, %d refused,
%d the server cannot be used in Strict mode.
`, newInitOptions().flags.FlagUsages(), defaultRedis, exitBusy, exitUsage, exitUnavailable, exitRefused, exitConfig)
}

func initServer(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newInitOptions()
	if wantsHelp(args) {
		initHelp(stdout)
		return nil
	}
	if err := o.parse(args); err != nil {
		return err
	}
	server, v, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer server.client.Close()
	cfg := strictConfig(o.maxTTL, o.prefix)
	cfg.Logger = v.logger()
	locks, err := holdfast.New(holdfastgoredis.New(server.client), cfg)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	err = locks.Init(ctx, o.force)
	_ = locks.Close(ctx)
	var quarantine *holdfast.QuarantineError
	switch {
	case errors.As(err, &quarantine):
		v.fail(fmt.Errorf("%s is in quarantine for another %s: it may have lost locks that somebody still holds; --force ends that",
			server.addr, quarantine.Left))
		return &exitError{exitBusy, nil}
	case err != nil:
		v.fail(err)
		return &exitError{failure(err).code, nil}
	}
	_, err = fmt.Fprintf(stdout, "%s is ready for Strict mode\n", server.addr)
	return err
}

// strictConfig is that of a Strict client whose leases last up to maxTTL.
func strictConfig(maxTTL time.Duration, prefix string) *holdfast.Config {
	return &holdfast.Config{Strict: true, MaxTTL: maxTTL, TTL: min(15*time.Second, maxTTL), Prefix: prefix}
}
