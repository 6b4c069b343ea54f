// Package connect makes clients of the servers that a user names.
package connect

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Server is what one URL names: a server, a Cluster, or a master behind Sentinel.
type Server struct {
	Addr     string // without credentials
	Mode     Mode
	Sentinel *redis.FailoverOptions // nil unless Mode is Sentinel

	client     redis.UniversalClient
	source     string   // what names the server, such as a flag or variable
	secrets    []string // the passwords, in all forms in which texts may have them
	unverified bool     // the server's certificate is not verified
}

// Mode says what a URL names.
type Mode string

// The modes.
const (
	Single   Mode = "server"
	Cluster  Mode = "cluster"
	Sentinel Mode = "sentinel"
)

// OpenOne makes a client of the one server that is named, for commands that use only one. It does no I/O.
func OpenOne(flags []string) (*Server, error) {
	source, urls, err := Named(flags)
	if err != nil {
		return nil, err
	}
	if len(urls) > 1 {
		return nil, exitcode.Configf("%s names %d servers; name one", source, len(urls))
	}
	return Open(source, urls[0])
}

// Client returns the server's client.
func (s *Server) Client() redis.UniversalClient { return s.client }

// Close closes the server's client.
func (s *Server) Close() { _ = s.client.Close() }

// locks makes a client of the library.
func (s *Server) locks(cfg *holdfast.Config) (*holdfast.Client, error) {
	if s.Sentinel != nil {
		return holdfastgoredis.NewFailover(s.Sentinel, cfg)
	}
	return holdfastgoredis.New(s.client, cfg)
}

// RunID returns the run id of the server that has a key, or "" if the server does not say. No two servers have the same one, and a
// server gets a new one when it restarts.
func (s *Server) RunID(ctx context.Context, key string) string {
	if cluster, is := s.client.(*redis.ClusterClient); is {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return ""
		}
		return runID(ctx, master)
	}
	return runID(ctx, s.client)
}

func runID(ctx context.Context, client redis.Cmdable) string {
	text, _ := client.Info(ctx, "server").Result()
	_, rest, _ := strings.Cut(text, "run_id:")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

// Secrets returns the passwords that no text may show.
func (s *Server) Secrets() []string { return s.secrets }

// hidePasswords notes the passwords of a URL. Those of Sentinel are parameters.
func (s *Server) hidePasswords(u *url.URL) {
	var passwords []string
	if password, ok := u.User.Password(); ok {
		passwords = append(passwords, password)
	}
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

// Warnings returns what is unsafe about the connections to servers. remedy completes "put the URL into HOLDFAST_REDIS".
func Warnings(remedy string, servers ...*Server) (warnings []string) {
	if slices.ContainsFunc(servers, (*Server).exposed) {
		warnings = append(warnings, "every user of this machine can read the password on the command line; "+
			"put the URL into HOLDFAST_REDIS "+remedy)
	}
	if slices.ContainsFunc(servers, func(s *Server) bool { return s.unverified }) {
		warnings = append(warnings, "the server's certificate is not verified (skip_verify): "+
			"anybody between here and the server can read the password and grant locks")
	}
	return warnings
}
