// Package connect makes clients of the servers that a user names.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/quorum"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Servers are the servers that the user names: one, or the nodes of a quorum.
type Servers struct {
	All    []*Server
	Source string // the flag or variable that names them
}

// OpenAll makes clients of the servers that Named finds. It does no I/O.
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

func (s *Servers) Close() {
	for _, one := range s.All {
		one.Close()
	}
}

// Introduce hides the servers' passwords from a console, and warns there of what is unsafe about the connections.
func (s *Servers) Introduce(c *console.Console) {
	c.Hide(s.Secrets()...)
	if slices.ContainsFunc(s.All, (*Server).exposed) {
		c.Warnf("every user of this machine can read the password on the command line; put the URL into HOLDFAST_REDIS instead")
	}
	if slices.ContainsFunc(s.All, func(s *Server) bool { return s.unverified }) {
		c.Warnf("the server's certificate is not verified (skip_verify): " +
			"anybody between here and the server can read the password and grant locks")
	}
}

// AreQuorum reports whether there are several servers.
func (s *Servers) AreQuorum() bool { return len(s.All) > 1 }

// Addr returns the addresses of all servers, separated by commas, without credentials.
func (s *Servers) Addr() string {
	var all []string
	for _, one := range s.All {
		all = append(all, one.Addr)
	}
	return strings.Join(all, ",")
}

// Secrets returns the servers' passwords, in all forms in which a text may contain them.
func (s *Servers) Secrets() (all []string) {
	for _, one := range s.All {
		all = append(all, one.secrets...)
	}
	return all
}

// CheckAdmitted returns an error if most nodes of a quorum have never been admitted: then no other node can admit them, and
// a run would only wait for the end of their quarantine. It waits at most timeout. A node that has not answered by then is
// reported when the lock is acquired.
func (s *Servers) CheckAdmitted(ctx context.Context, prefix string, timeout time.Duration) error {
	space, err := keys.NewSpace(cmp.Or(prefix, "holdfast:"))
	if !s.AreQuorum() || err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var never []string
	for i, err := range Each(s.All, func(one *Server) error { return one.Client.Get(ctx, space.Incarnation).Err() }) {
		if errors.Is(err, redis.Nil) {
			never = append(never, s.All[i].Addr)
		}
	}
	if len(never) <= len(s.All)/2 {
		return nil
	}
	return exitcode.Errorf(exitcode.Unavailable, "nodes %s have never been admitted to the quorum: if they are new, run holdfast init "+
		"with all nodes, once; if they lost their data, do so when all earlier leases have expired", strings.Join(never, ", "))
}

// Prefixes returns up to limit prefixes, except own, under which locks may be held. It scans for their fence counters until
// ctx ends, and finds none if the user may not scan. If the servers are a quorum, it asks the first node.
func (s *Servers) Prefixes(ctx context.Context, own string, limit int) []string {
	var mu sync.Mutex
	var found []string
	scan := func(ctx context.Context, client *redis.Client, counters string, prefixOf func(key string) string) {
		keys := client.ScanType(ctx, 0, counters, 250, "stream").Iterator() // other clients wait while the server scans 250 keys
		for keys.Next(ctx) {
			prefix := prefixOf(keys.Val())
			mu.Lock()
			if prefix != "" && prefix != own && len(found) < limit && !slices.Contains(found, prefix) {
				found = append(found, prefix)
			}
			mu.Unlock()
		}
	}
	switch client := s.All[0].Client.(type) {
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

// Explain adds to an error of the library what the user should do, if that is a matter of flags or of the URL.
func (s *Servers) Explain(err error) error {
	var server *holdfast.ServerError
	if len(s.All) != 1 || !errors.As(err, &server) {
		return err
	}
	one := s.All[0]
	switch {
	case server.Code == "BADLIMIT":
		return fmt.Errorf("%w; give --slots the number that the other runs give, or change it for all with holdfast resize", err)
	case server.Code == "BADPARTIES":
		return fmt.Errorf("%w; give the N that the others give, or start the latch over with another: holdfast latch NAME N reset", err)
	case server.Op != "reach":
	case one.Mode == Single:
		return one.explainTLS(err, server)
	case one.Mode == Sentinel && server.Code == "NOAUTH" && one.Sentinel.Password == "" && one.Sentinel.SentinelPassword != "":
		return fmt.Errorf("%w; the password before the host is for the sentinels: the parameters username and password are for the server", err)
	}
	return err
}

// CheckDistinct returns an error if two nodes are the same server under two names. It ignores nodes that do not answer.
func (s *Servers) CheckDistinct(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ids := Each(s.All, func(one *Server) string { return runID(ctx, one.Client) })
	for i, id := range ids {
		if other := slices.Index(ids, id); id != "" && other < i {
			return exitcode.Configf("%s and %s are the same server; name each server once", s.All[other].Addr, s.All[i].Addr)
		}
	}
	return nil
}

// Each calls ask for all servers concurrently, and returns the answers in the order of the servers.
func Each[S, T any](all []S, ask func(S) T) []T {
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

// Locks makes clients of the library with this configuration. nodeTimeout bounds how long a quorum waits for a node in one
// round; 0 means the library's default.
func (s *Servers) Locks(cfg *holdfast.Config, nodeTimeout time.Duration) (*Locks, error) {
	l := &Locks{}
	for _, one := range s.All {
		c, err := one.Locks(cfg)
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

// Client returns the client of the only server. Commands that refuse quorums use it.
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

// Nodes returns the addresses of the nodes of a quorum that hold a lease now.
func (l *Locks) Nodes(lease *holdfast.Lease) []string { return l.quorum.Nodes(lease) }

// CloseTime is the limit for Close if the servers answer.
const CloseTime = 3 * time.Second

// Close closes the clients, which release what they still hold. It takes at most limit.
func (l *Locks) Close(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return errors.Join(Each(l.clients, func(c *holdfast.Client) error { return c.Close(ctx) })...)
}

// Server is what one URL names: a server, a Cluster, or a master behind Sentinel.
type Server struct {
	Addr     string // without credentials
	Mode     Mode
	Sentinel *redis.FailoverOptions // nil unless Mode is Sentinel
	Client   redis.UniversalClient

	source     string   // the flag or variable that names the server
	secrets    []string // see Servers.Secrets
	unverified bool     // the server's certificate is not verified
}

// Mode says what a URL names.
type Mode string

const (
	Single   Mode = "server"
	Cluster  Mode = "cluster"
	Sentinel Mode = "sentinel"
)

func (s *Server) Close() { _ = s.Client.Close() }

// Locks makes a client of the library.
func (s *Server) Locks(cfg *holdfast.Config) (*holdfast.Client, error) {
	if s.Sentinel != nil {
		return holdfastgoredis.NewFailover(s.Sentinel, cfg)
	}
	return holdfastgoredis.New(s.Client, cfg)
}

// runID returns the server's id, which is new after a restart; "" if it cannot be read.
func runID(ctx context.Context, client redis.Cmdable) string {
	text, _ := client.Info(ctx, "server").Result()
	_, rest, _ := strings.Cut(text, "run_id:")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

// ErrorText returns the text of a server's error without the arguments that a server repeats for an unknown command. If the command was
// AUTH, they contain a password, perhaps cut off and therefore not recognised by Console.Redact.
func ErrorText(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return text
}

// hidePasswords adds the passwords of a URL to secrets. Those of Sentinel are parameters.
func (s *Server) hidePasswords(u *url.URL) {
	password, _ := u.User.Password()
	passwords := []string{password}
	for name, values := range u.Query() {
		if strings.Contains(name, "password") {
			passwords = append(passwords, values...)
		}
	}
	for _, password := range passwords {
		for _, form := range []string{password, url.QueryEscape(password), url.PathEscape(password)} {
			if form != "" && !slices.Contains(s.secrets, form) {
				s.secrets = append(s.secrets, form)
			}
		}
	}
}

// exposed reports whether the list of processes shows a password.
func (s *Server) exposed() bool {
	return s.source != "HOLDFAST_REDIS" && s.source != "REDIS_URL" && len(s.secrets) > 0
}
