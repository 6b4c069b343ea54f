// Package doctor examines a server, or all servers of a Cluster or behind sentinels, or the nodes of a quorum, and says
// what about them endangers locks.
package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/keys"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/target"
)

// Config says what to examine.
type Config struct {
	Client   redis.UniversalClient
	Addr     string                 // without credentials
	Sentinel *redis.FailoverOptions // nil unless Client asks sentinels
	Prefix   string                 // of keys; "" for the library's default
	TTL      time.Duration          // of the leases that the server must be good for
	Watch    time.Duration          // how long to watch the clocks
}

// limit bounds an examination, besides the time for which it watches clocks. Checks that are not finished by then are
// reported as impossible.
const limit = 30 * time.Second

// Examine examines a deployment. Its error is the library's if the server is unavailable, or the cause if ctx has
// ended. Everything else is a finding.
func Examine(ctx context.Context, cfg Config) (*report.Report, error) {
	d, err := diagnose(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return report.New(cfg.Addr, d.mode, d.addrs, d.findings), nil
}

// diagnosis is what was found about one deployment.
type diagnosis struct {
	mode     string
	addrs    []string   // of all servers
	subjects []*subject // the servers that could be reached
	findings []report.Finding
}

// add adds findings.
func (d *diagnosis) add(found ...report.Finding) { d.findings = append(d.findings, found...) }

// diagnose runs all checks that are about a single deployment.
func diagnose(ctx context.Context, cfg Config) (*diagnosis, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "holdfast:"
	}
	space, err := keys.NewSpace(cfg.Prefix)
	if err != nil {
		return nil, errors.Join(holdfast.ErrInvalid, err)
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	p := &probe{Config: cfg, space: space, id: hex.EncodeToString(id[:])}
	unsupported, err := p.reach(ctx)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, limit+cfg.Watch)
	defer cancel()

	deployment := target.New(cfg.Client, cfg.Addr, cfg.Sentinel)
	defer deployment.Close()
	d := &diagnosis{mode: deployment.Mode}
	d.add(deployment.Discover(ctx)...)
	d.addrs = target.Addrs(deployment.Servers)
	d.add(load(ctx, deployment)...)
	if unsupported != nil {
		d.add(report.Version.Problem(unsupported.Error(), "Holdfast refuses to use this server", "upgrade it to a supported version").On(target.Addrs(deployment.Servers)...))
	}
	for _, s := range deployment.Servers {
		d.subjects = append(d.subjects, p.subject(ctx, s, deployment))
	}
	d.add(each(d.subjects, func(s *subject) []report.Finding { return s.checkFacts(ctx) })...)
	found, complete := checkTopology(ctx, deployment)
	d.add(found...)
	d.add(checkFailover(deployment, cfg.TTL)...)
	d.add(checkIdentity(ctx, deployment)...)
	d.add(checkClocks(ctx, d.subjects, cfg.TTL, cfg.Watch)...)
	masters := slices.DeleteFunc(slices.Clone(d.subjects), func(s *subject) bool { return s.Replica })
	d.add(each(masters, func(s *subject) []report.Finding { return s.checkACL(ctx) })...)
	if unsupported == nil && complete {
		d.add(each(masters, func(s *subject) []report.Finding { return s.checkPubSub(ctx) })...)
		d.add(each(masters, func(s *subject) []report.Finding { return s.checkTrial(ctx) })...)
	}
	if outer.Err() != nil {
		return nil, context.Cause(outer)
	}
	return d, nil
}

// load loads what the servers say about themselves, and removes those that cannot be reached.
func load(ctx context.Context, d *target.Deployment) (found []report.Finding) {
	lost := map[*target.Server]bool{}
	var mu sync.Mutex // guards lost and found
	var loading sync.WaitGroup
	for _, s := range d.Servers {
		loading.Go(func() {
			if err := s.Load(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				lost[s] = true
				found = append(found, report.Topology.Warning("cannot be reached from here: "+report.Because("INFO", err),
					"nothing else about it was examined", checkReachable).On(s.Addr))
			}
		})
	}
	loading.Wait()
	d.Servers = slices.DeleteFunc(d.Servers, func(s *target.Server) bool { return lost[s] })
	return found
}

const checkReachable = "check that it runs, and that programs that take locks can reach it"

// each runs a check on several servers at once. It returns the findings in the order of the servers, and says on which
// server each was made.
func each(subjects []*subject, check func(*subject) []report.Finding) (all []report.Finding) {
	found := make([][]report.Finding, len(subjects))
	var checking sync.WaitGroup
	for i, s := range subjects {
		checking.Go(func() { found[i] = check(s) })
	}
	checking.Wait()
	for i, s := range subjects {
		for _, f := range found[i] {
			all = append(all, f.On(s.Addr))
		}
	}
	return all
}

// probe is what an examination uses to try out locks.
type probe struct {
	Config
	space keys.Space
	id    string // a random part of names
}

// name returns the nth name for a lock.
func (p *probe) name(n int) string { return fmt.Sprintf("doctor:%s:%d", p.id, n) }

// reach makes the library find out what the server is. unsupported says that it can be reached, but not used.
func (p *probe) reach(ctx context.Context) (unsupported, err error) {
	locks, err := p.locks()
	if err != nil {
		return nil, err
	}
	defer closeAll(context.WithoutCancel(ctx), locks)
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
	return nil, nil // the trial shows what does not work
}

// locks returns a client of the library that logs nothing.
func (p *probe) locks() (*holdfast.Client, error) {
	cfg := &holdfast.Config{
		CommandTimeout:    10 * time.Second, // a server that stands still for a while is not a problem yet
		Logger:            slog.New(slog.DiscardHandler),
		MaxLocalHandovers: -1,
		Identity:          "holdfast doctor",
		Prefix:            p.Prefix,
		RetryTimeout:      time.Second,
		TTL:               trialTTL,
	}
	if p.Sentinel != nil { // like other commands, with the same errors
		return holdfastgoredis.NewFailover(p.Sentinel, cfg)
	}
	return holdfastgoredis.New(p.Client, cfg)
}

// closeAll closes clients of the library, and gives them time to release what they hold.
func closeAll(ctx context.Context, clients ...*holdfast.Client) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, c := range clients {
		_ = c.Close(ctx)
	}
}
