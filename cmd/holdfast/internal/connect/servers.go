package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/quorum"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Servers are the servers that the user names: one, or the nodes of a quorum.
type Servers struct {
	All    []*Server
	Source string // the flag or variable that names them
}

// OpenAll makes clients of the servers that Named finds, without I/O.
func OpenAll(flags []string) (*Servers, error) {
	source, urls, err := Named(flags)
	if err != nil {
		return nil, err
	}
	s := &Servers{Source: source}
	for _, url := range urls {
		one, err := Open(source, url)
		if err == nil {
			s.All = append(s.All, one)
			if len(urls) > 1 && one.Mode != Single {
				err = exitcode.Configf("%s names %d servers, a quorum, but %s is a Cluster or behind Sentinel: a node is a single server",
					source, len(urls), one.Addr)
			}
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close closes the clients.
func (s *Servers) Close() {
	for _, one := range s.All {
		one.Close()
	}
}

// AreQuorum reports whether there are several servers.
func (s *Servers) AreQuorum() bool { return len(s.All) > 1 }

// Addr names all servers, without credentials.
func (s *Servers) Addr() string {
	var all []string
	for _, one := range s.All {
		all = append(all, one.Addr)
	}
	return strings.Join(all, ",")
}

// Secrets returns the passwords that no text may show.
func (s *Servers) Secrets() (all []string) {
	for _, one := range s.All {
		all = append(all, one.secrets...)
	}
	return all
}

// NeverAdmitted returns the nodes of a quorum that have never been admitted, if they are a majority: then no other
// node can admit them, and a run would only wait for their quarantine. It waits for at most the timeout; nodes that
// do not answer by then are reported when the lock is acquired.
func (s *Servers) NeverAdmitted(ctx context.Context, prefix string, timeout time.Duration) []string {
	space, err := keys.NewSpace(cmp.Or(prefix, "holdfast:"))
	if !s.AreQuorum() || err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	unmarked := each(s.All, func(one *Server) bool {
		return errors.Is(one.client.Get(ctx, space.Incarnation()).Err(), redis.Nil)
	})
	var addrs []string
	for i, one := range s.All {
		if unmarked[i] {
			addrs = append(addrs, one.Addr)
		}
	}
	if len(addrs) <= len(s.All)/2 {
		return nil
	}
	return addrs
}

// Prefixes returns at most limit prefixes, other than own, under which locks may be held. It scans for their fence counters until ctx
// ends, and finds none if the user may not scan. Of a quorum it asks one node.
func (s *Servers) Prefixes(ctx context.Context, own string, limit int) []string {
	var mu sync.Mutex
	var found []string
	scan := func(ctx context.Context, client *redis.Client, counters string, prefixOf func(key string) string) {
		keys := client.ScanType(ctx, 0, counters, 250, "stream").Iterator() // few keys at a time, because other clients wait meanwhile
		for keys.Next(ctx) {
			prefix := prefixOf(keys.Val())
			mu.Lock()
			if prefix != "" && prefix != own && len(found) < limit && !slices.Contains(found, prefix) {
				found = append(found, prefix)
			}
			mu.Unlock()
		}
	}
	switch client := s.All[0].client.(type) {
	case *redis.ClusterClient:
		_ = client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			scan(ctx, master, "*f{*}", func(key string) string { return key[:strings.LastIndex(key, "f{")] })
			return nil
		})
	case *redis.Client:
		scan(ctx, client, "*fences", func(key string) string { return strings.TrimSuffix(key, "fences") })
	}
	slices.Sort(found)
	return found
}

// Explain adds to the error of a first contact what is wrong with the URL, if the error does not say so itself.
func (s *Servers) Explain(err error) error {
	var server *holdfast.ServerError
	if len(s.All) != 1 || !errors.As(err, &server) || server.Op != "reach" {
		return err
	}
	one := s.All[0]
	switch {
	case one.Mode == Single:
		return one.explainTLS(err, server)
	case one.Mode == Sentinel && server.Code == "NOAUTH" && one.Sentinel.Password == "" && one.Sentinel.SentinelPassword != "":
		return fmt.Errorf("%w; the password before the host is for the sentinels: the parameters username and password are for the server", err)
	}
	return err
}

// CheckDistinct returns an error if two nodes are the same server under two names. It ignores nodes that do not
// answer.
func (s *Servers) CheckDistinct(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ids := each(s.All, func(one *Server) string { return runID(ctx, one.client) })
	for i, id := range ids {
		if other := slices.Index(ids, id); id != "" && other < i {
			return exitcode.Configf("%s and %s are the same server; name each server once", s.All[other].Addr, s.All[i].Addr)
		}
	}
	return nil
}

// each asks all servers at once, and returns their answers in order.
func each[T any](all []*Server, ask func(*Server) T) []T {
	answers := make([]T, len(all))
	var asking sync.WaitGroup
	for i, one := range all {
		asking.Go(func() { answers[i] = ask(one) })
	}
	asking.Wait()
	return answers
}

// Locks makes locks on one server, or on a quorum.
type Locks struct {
	clients []*holdfast.Client
	quorum  *quorum.Quorum // nil if there is one server
}

// Locks makes clients of the library with this configuration. nodeTimeout is how long a quorum waits for a node in a
// round; 0 means the default.
func (s *Servers) Locks(cfg *holdfast.Config, nodeTimeout time.Duration) (*Locks, error) {
	l := &Locks{}
	for _, one := range s.All {
		c, err := one.locks(cfg)
		if err != nil {
			return nil, exitcode.Configf("%w", err)
		}
		l.clients = append(l.clients, c)
	}
	if !s.AreQuorum() {
		return l, nil
	}
	var err error
	if l.quorum, err = quorum.New(l.clients, &quorum.Config{NodeTimeout: nodeTimeout}); err != nil {
		return nil, exitcode.Configf("%w", err)
	}
	return l, nil
}

// Client returns the client of the one server, for what a quorum does not have.
func (l *Locks) Client() *holdfast.Client { return l.clients[0] }

// Mutex returns the mutex of a name.
func (l *Locks) Mutex(name string, option holdfast.Option, wait holdfast.WaitOption) *holdfast.Lock {
	if l.quorum != nil {
		return l.quorum.Mutex(name, option, wait)
	}
	return l.clients[0].Mutex(name, option, wait)
}

// Inspector returns an inspector of the locks.
func (l *Locks) Inspector() *inspect.Inspector {
	if l.quorum != nil {
		return inspect.NewQuorum(l.quorum)
	}
	return inspect.New(l.clients[0])
}

// Nodes returns the servers of a quorum that hold a lease at the moment.
func (l *Locks) Nodes(lease *holdfast.Lease) []string { return l.quorum.Nodes(lease) }

// Admit admits new servers to Strict mode. force ends the quarantine of those that were known.
func (l *Locks) Admit(ctx context.Context, force bool) error {
	if force {
		return l.Inspector().ForceAdmit(ctx)
	}
	return l.Inspector().Admit(ctx)
}

// CloseTime is how long Close should wait for servers that answer.
const CloseTime = 3 * time.Second

// Close closes the clients, which release what they still hold, in at most that time.
func (l *Locks) Close(most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	closed := make(chan error)
	for _, c := range l.clients {
		go func() { closed <- c.Close(ctx) }()
	}
	var errs []error
	for range l.clients {
		errs = append(errs, <-closed)
	}
	return errors.Join(errs...)
}
