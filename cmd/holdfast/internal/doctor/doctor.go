// Package doctor examines a server, or all servers of a Cluster or behind sentinels, or the nodes of a quorum, and reports what endangers
// locks there.
package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// Config says what to examine.
type Config struct {
	*connect.Server
	Prefix string        // of keys; "" for the library's default
	TTL    time.Duration // of the leases for which the server must be suitable
	Watch  time.Duration // how long to watch the clocks
}

// limit bounds an examination, without the time that it watches clocks. Checks that have not finished by then are reported as impossible.
const limit = 30 * time.Second

// Examine examines a deployment or, if there are several, the nodes of a quorum. Its error is the library's if no server can be reached, or
// ctx's cause if ctx has ended. Anything else is a finding.
func Examine(ctx context.Context, all []Config) (*Report, error) {
	if len(all) > 1 {
		return examineQuorum(ctx, all)
	}
	e, err := examine(ctx, all[0])
	if err != nil {
		return nil, err
	}
	return newReport(all[0].Addr, string(e.Mode), e.addrs, e.findings), nil
}

// examination is the state of an examination of one server, the servers of a Cluster, or a master and its replicas behind sentinels.
type examination struct {
	Config
	space     keys.Space
	id        string // a random part of locks' names
	sentinels []*sentinelAnswer
	servers   []*server // the servers that can be reached, masters first
	addrs     []string  // of all servers
	findings  []Finding
}

func (e *examination) add(found ...Finding) { e.findings = append(e.findings, found...) }

// examine runs all checks that are about a single deployment.
func examine(ctx context.Context, cfg Config) (*examination, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "holdfast:"
	}
	space, err := keys.NewSpace(cfg.Prefix)
	if err != nil {
		return nil, errors.Join(holdfast.ErrInvalid, err)
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	e := &examination{Config: cfg, space: space, id: hex.EncodeToString(id[:])}
	unsupported, err := e.reach(ctx)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, limit+cfg.Watch)
	defer cancel()

	defer e.discover(ctx)()
	if unsupported != nil {
		e.add(problem("version", unsupported.Error(), "Holdfast refuses to use this server", "upgrade it to a supported version").on(e.addrs...))
	}
	e.add(each(e.servers, func(s *server) []Finding {
		return []Finding{s.checkVersion(ctx), s.checkNative(ctx), s.checkEviction(), s.checkPersistence(), s.checkReplication()}
	})...)
	found, complete := e.checkTopology(ctx)
	e.add(found...)
	e.add(e.checkFailover()...)
	e.add(e.checkIdentity(ctx)...)
	e.add(e.checkClocks(ctx)...)
	e.add(each(e.masters(), func(s *server) []Finding { return []Finding{s.checkACL(ctx)} })...)
	if unsupported == nil && complete {
		e.add(each(e.masters(), func(s *server) []Finding { return append(s.checkTrial(ctx), s.checkPubSub(ctx)) })...)
	}
	if outer.Err() != nil {
		return nil, context.Cause(outer)
	}
	return e, nil
}

// masters returns the servers that are not known to be replicas.
func (e *examination) masters() []*server {
	return slices.DeleteFunc(slices.Clone(e.servers), func(s *server) bool { return s.replica })
}

// each runs a check on several servers concurrently. It returns the findings in the order of the servers, each with its server's address.
func each(servers []*server, check func(*server) []Finding) (all []Finding) {
	for i, found := range connect.Each(servers, check) {
		for _, f := range found {
			all = append(all, f.on(servers[i].addr))
		}
	}
	return all
}

// name returns the nth candidate for the name of a lock.
func (e *examination) name(n int) string { return fmt.Sprintf("doctor:%s:%d", e.id, n) }

// reach makes the library connect to the server. unsupported is the library's reason not to use it, or nil.
func (e *examination) reach(ctx context.Context) (unsupported, err error) {
	locks, err := e.client()
	if err != nil {
		return nil, err
	}
	defer closeAll(ctx, locks)
	err = locks.Ping(ctx)
	var server *holdfast.ServerError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !errors.As(err, &server):
		return nil, nil
	case server.Op == "use":
		return server.Err, nil
	case server.Op == "reach":
		return nil, err
	}
	return nil, nil // the trial reports other errors
}

// client returns a client of the library that logs nothing.
func (e *examination) client() (*holdfast.Client, error) {
	return e.Locks(&holdfast.Config{
		CommandTimeout:    10 * time.Second, // a server that stands still for a while is not a problem yet
		Logger:            slog.New(slog.DiscardHandler),
		MaxLocalHandovers: -1,
		Identity:          "holdfast doctor",
		Prefix:            e.Prefix,
		RetryTimeout:      time.Second,
		TTL:               trialTTL,
	})
}

// closeAll closes clients of the library, and gives them time to release their locks.
func closeAll(ctx context.Context, clients ...*holdfast.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	for _, c := range clients {
		_ = c.Close(ctx)
	}
}
