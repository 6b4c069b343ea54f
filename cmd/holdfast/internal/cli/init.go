package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
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

With --redis for each of several servers, or a list in HOLDFAST_REDIS, it admits the
nodes of a quorum, which have to be there all.

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
	s, v, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer s.close()
	cfg := strictConfig(o.maxTTL, o.prefix)
	cfg.Logger = v.logger()
	locks, err := s.locker(cfg, 0)
	if err != nil {
		return err
	}
	defer locks.close(v, parting)
	if locks.quorum != nil {
		if err := s.distinct(ctx); err != nil {
			return err
		}
		err = admit(ctx, locks.quorum, o.force)
	} else {
		err = admit(ctx, locks.clients[0], o.force)
	}
	var server *holdfast.ServerError
	switch {
	case locks.quorum == nil && errors.Is(err, holdfast.ErrQuarantine) && errors.As(err, &server):
		v.fail(fmt.Errorf("%s is in quarantine for another %s: it may have lost locks that somebody still holds; --force ends that",
			s.addr(), server.RetryAfter))
		return &exitError{exitBusy, nil}
	case err != nil && locks.quorum != nil:
		return initFailed(v, err)
	case err != nil:
		v.fail(err)
		return &exitError{failure(err).code, nil}
	case locks.quorum != nil:
		_, err = fmt.Fprintf(stdout, "%s are ready: a quorum of %d nodes, of which %d have to agree\n",
			strings.ReplaceAll(s.addr(), ",", ", "), len(s.all), len(s.all)/2+1)
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is ready for Strict mode\n", s.addr())
	return err
}

// admit admits a server, or the nodes of a quorum.
func admit(ctx context.Context, to interface {
	Admit(ctx context.Context) error
	ForceAdmit(ctx context.Context) error
}, force bool) error {
	if force {
		return to.ForceAdmit(ctx)
	}
	return to.Admit(ctx)
}

// initFailed says which nodes of a quorum were not admitted, and why.
func initFailed(v *voice, err error) error {
	exit := failure(err)
	var quorum *holdfast.QuorumError
	if !errors.As(err, &quorum) {
		v.fail(err)
		return &exitError{exit.code, nil}
	}
	resting := 0
	for _, n := range quorum.Nodes {
		var server *holdfast.ServerError
		if errors.Is(n.Err, holdfast.ErrQuarantine) && errors.As(n.Err, &server) {
			resting++
			v.fail(fmt.Errorf("node %s is in quarantine for another %s: it may have lost locks that somebody still holds; --force ends that", n.Server, server.RetryAfter))
			continue
		}
		v.fail(fmt.Errorf("node %s: %s", n.Server, nodeReason(n.Err)))
	}
	if resting == len(quorum.Nodes) {
		return &exitError{exitBusy, nil}
	}
	v.fail(errors.New("all nodes have to be there to be admitted: a quorum that is in use needs no init, one that is new has all its nodes"))
	return &exitError{exit.code, nil}
}

// distinct refuses nodes that are one server under several names. What it cannot ask, whoever
// admits them says.
func (s *servers) distinct(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ids := make([]string, len(s.all))
	var wg sync.WaitGroup
	for i, e := range s.all {
		wg.Go(func() {
			text, _ := e.client.Info(ctx, "server").Result()
			_, rest, _ := strings.Cut(text, "run_id:")
			ids[i], _, _ = strings.Cut(rest, "\r\n")
		})
	}
	wg.Wait()
	for i, id := range ids {
		if other := slices.Index(ids, id); id != "" && other < i {
			return configError("%s and %s are the same server: name each once", s.all[other].addr, s.all[i].addr)
		}
	}
	return nil
}

// strictConfig is that of a Strict client whose leases last up to maxTTL.
func strictConfig(maxTTL time.Duration, prefix string) *holdfast.Config {
	return &holdfast.Config{Strict: true, MaxTTL: maxTTL, TTL: min(15*time.Second, maxTTL), Prefix: prefix}
}
