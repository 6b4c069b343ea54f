package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Default is the URL of the server that is used if the user names none.
const Default = "redis://127.0.0.1:6379"

// Named returns the URLs of servers and their source: the flag --redis, or else HOLDFAST_REDIS, REDIS_URL or the default. If the flag is
// given but empty, perhaps because a variable is unset, Named returns an empty URL and not that of another server.
//
// A job does not get the HOLDFAST_REDIS of its holdfast run, nor the REDIS_URL that the run used. Without them a holdfast in the job
// would most likely use another server. Named therefore refuses to fall back on REDIS_URL or the default there.
func Named(flags []string) (source string, urls []string, err error) {
	for _, text := range flags {
		urls = append(urls, splitURLs(text)...)
	}
	switch {
	case len(urls) > 0:
		return "--redis", urls, nil
	case len(flags) > 0:
		return "--redis", []string{""}, nil
	}
	if urls = splitURLs(os.Getenv("HOLDFAST_REDIS")); len(urls) > 0 {
		return "HOLDFAST_REDIS", urls, nil
	}
	if outer := os.Getenv("HOLDFAST_NAME"); outer != "" {
		return "", nil, exitcode.Configf("no server is named: this holdfast is in the job of %q, and a job does not get the URL "+
			"that its own holdfast uses; give --redis URL, or set HOLDFAST_REDIS within the job", printable.Line(outer, 256))
	}
	if urls = splitURLs(os.Getenv("REDIS_URL")); len(urls) > 0 {
		return "REDIS_URL", urls, nil
	}
	return "the default", []string{Default}, nil
}

// nextURL matches the separator of two URLs and the beginning of the second. Only the first URL may lack "//": in later text,
// a separator may belong to a password.
//
// It is compiled at its first use, as all regular expressions of this program are: holdfast run is three processes, and each of
// them would pay for an initialization.
var nextURL = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\s,]+([a-z]+(\+[a-z]+)?://)`) })

// splitURLs splits a list of URLs that are separated by spaces or commas.
func splitURLs(text string) []string {
	var urls []string
	for text = strings.TrimSpace(text); text != ""; {
		next := nextURL().FindStringSubmatchIndex(text)
		if next == nil {
			return append(urls, text)
		}
		if next[0] > 0 {
			urls = append(urls, text[:next[0]])
		}
		text = text[next[2]:]
	}
	return urls
}

// Open makes a client of the server with this URL. It does no I/O. Errors name the URL's source and do not quote the URL: if it
// is malformed, any part of it may belong to the password.
func Open(source, text string) (*Server, error) {
	s := &Server{source: source}
	if text == "" {
		return nil, exitcode.Configf("the URL in %s is empty: name a server, or leave the flag out", source)
	}
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err == nil && strings.Count(u.Host, ":") > 1 && u.Host[0] != '[' {
		_, err = netip.ParseAddr(u.Host) // IPv6 without brackets, and without a port
	}
	if err != nil || u.Fragment != "" || u.Opaque != "" || strings.Contains(u.Host, ",") {
		hint := ""
		switch scheme, rest, _ := strings.Cut(text, "://"); {
		case strings.Contains(scheme, "+") && strings.Contains(rest, ","):
			hint = "; further addresses are parameters: &addr=HOST:PORT"
		case strings.ContainsAny(text, " ,"):
			hint = "; in a list, every URL begins with a scheme such as redis://"
		}
		return nil, exitcode.Configf("cannot parse the URL in %s: want redis://HOST:PORT/DB, with USER:PASSWORD@ before HOST "+
			"if the server needs it, and characters such as / ? # @ %% in the password percent-encoded%s", source, hint)
	}
	s.hidePasswords(u)
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = scheme
	own, err := takeTLSParameters(u, source)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "", "cluster", "sentinel":
		err = s.open(kind, u, own)
	default:
		return nil, exitcode.Configf("the URL in %s does not begin with redis://, rediss:// or unix://, "+
			"with +cluster or +sentinel before the colon for these", source)
	}
	if names := unknownParameters(u, err); names != "" {
		return nil, exitcode.Configf("the URL in %s has an unknown parameter: %s; see holdfast help run, and those of go-redis", source, names)
	}
	if err != nil {
		return nil, exitcode.Configf("the URL in %s is not that of a Redis server: want redis://, rediss://, unix://, redis+cluster:// or "+
			"redis+sentinel://HOST:PORT?master_name=NAME, after a slash only the number of a database, "+
			"and parameters that holdfast help run or go-redis lists", source)
	}
	if s.Client == nil {
		return nil, exitcode.Configf("the URL in %s names no master: add ?master_name=NAME", source)
	}
	return s, nil
}

// open makes the client. own has the URL's parameters for TLS. The client stays nil if a URL for Sentinel names no master.
func (s *Server) open(kind string, u *url.URL, own *tls.Config) error {
	var err error
	switch kind {
	case "":
		var o *redis.Options
		if o, err = redis.ParseURL(u.String()); err == nil {
			s.unverified = applyTLS(own, o.TLSConfig)
			o.Dialer = bounding(o.DialTimeout, o.TLSConfig)
			o.DialerRetries = max(o.DialerRetries, 1) // the library retries, and says why
			s.Client, s.Addr, s.Mode = redis.NewClient(o), o.Addr, Single
		}
	case "cluster":
		var o *redis.ClusterOptions
		if o, err = redis.ParseClusterURL(u.String()); err == nil {
			s.unverified = applyTLS(own, o.TLSConfig)
			o.Dialer = bounding(o.DialTimeout, o.TLSConfig)
			o.DialerRetries = max(o.DialerRetries, 1)
			s.Client, s.Addr, s.Mode = redis.NewClusterClient(o), strings.Join(o.Addrs, ","), Cluster
		}
	case "sentinel":
		var o *redis.FailoverOptions
		if o, err = redis.ParseFailoverURL(u.String()); err == nil && o.MasterName != "" {
			s.unverified = applyTLS(own, o.TLSConfig)
			o.Dialer = bounding(o.DialTimeout, o.TLSConfig)
			s.Client, s.Addr, s.Mode, s.Sentinel = redis.NewFailoverClient(o), strings.Join(o.SentinelAddrs, ","), Sentinel, o
		}
	}
	return err
}

// bounding returns the dialer that go-redis would use, with connections that close when the server announces a reply too large for
// this process: go-redis allocates whatever a reply announces. timeout 0 means go-redis's default.
func bounding(timeout time.Duration, config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: cmp.Or(timeout, 5*time.Second), TLSConfig: config})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bounds.Wrap(conn), nil
	}
}

var parameterName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z][a-zA-Z_]{0,31}$`) })

// unknownParameters returns the parameters that go-redis does not know, if that is its error. It returns "" if they may be part of
// a password that contains a question mark, which the host follows.
func unknownParameters(u *url.URL, err error) string {
	if err == nil || strings.Contains(u.RawQuery, "@") || strings.Contains(u.RawQuery, "%40") {
		return ""
	}
	_, names, unknown := strings.Cut(err.Error(), "unexpected option: ")
	for name := range strings.SplitSeq(names, ", ") {
		if !parameterName().MatchString(name) {
			return ""
		}
	}
	if !unknown {
		return ""
	}
	return names
}

// noLogger silences go-redis, which also returns everything that matters as an error.
type noLogger struct{}

func init() { redis.SetLogger(noLogger{}) } // once: clients that are being closed may still read it

func (noLogger) Printf(context.Context, string, ...any) {}

// takeTLSParameters removes from u the parameters for TLS that go-redis does not know, and returns a configuration with their values. Its
// errors do not quote the URL.
func takeTLSParameters(u *url.URL, source string) (*tls.Config, error) {
	query := u.Query()
	given := map[string]string{}
	for _, name := range []string{"tls_ca", "tls_cert", "tls_key", "tls_server_name"} {
		if query.Has(name) {
			given[name] = query.Get(name)
			query.Del(name)
		}
	}
	if len(given) > 0 {
		u.RawQuery = query.Encode()
		if u.Scheme != "rediss" {
			return nil, exitcode.Configf("the URL in %s has parameters for TLS, but does not begin with rediss", source)
		}
	}
	c := &tls.Config{ServerName: given["tls_server_name"]}
	if file, ok := given["tls_ca"]; ok {
		text, err := readFile(file)
		if err != nil {
			return nil, exitcode.Configf("tls_ca in %s: cannot read the file: %w", source, withoutPath(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, exitcode.Configf("tls_ca in %s: the file has no certificate in PEM", source)
		}
	}
	cert, hasCert := given["tls_cert"]
	key, hasKey := given["tls_key"]
	if hasCert != hasKey {
		return nil, exitcode.Configf("tls_cert and tls_key in %s: one needs the other", source)
	}
	if hasCert {
		certText, err := readFile(cert)
		keyText, err2 := readFile(key)
		pair, err3 := tls.X509KeyPair(certText, keyText)
		if err := cmp.Or(err, err2, err3); err != nil {
			return nil, exitcode.Configf("tls_cert and tls_key in %s: %w", source, withoutPath(err))
		}
		c.Certificates = append(c.Certificates, pair)
	}
	return c, nil
}

const (
	maxFile  = 4 << 20         // bytes; a system's list of authorities takes a quarter of a MiB
	readTime = 5 * time.Second // for a pipe
)

// readFile reads a file, or a pipe that the shell has made. It waits at most readTime for the pipe's writer, because the signals that
// holdfast run handles do not interrupt it.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(readTime)) // a regular file has no deadlines
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// applyTLS adds the values in own to the configuration that go-redis has made, which is nil unless the scheme is rediss. It reports
// whether the server's certificate is left unverified.
func applyTLS(own, c *tls.Config) (unverified bool) {
	if c == nil {
		return false
	}
	c.RootCAs, c.Certificates, c.ServerName = own.RootCAs, own.Certificates, cmp.Or(own.ServerName, c.ServerName)
	return c.InsecureSkipVerify
}

// withoutPath removes the path, which is part of the URL, from a file's error.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// explainTLS adds to a connection's first error what to do if the URL is wrong about TLS. The error itself does not say so: a server
// without TLS does not answer a handshake, and a server with TLS closes a connection that begins without one.
func (s *Server) explainTLS(err error, server *holdfast.ServerError) error {
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	o := s.Client.(*redis.Client).Options()
	switch {
	case !errors.Is(server, holdfast.ErrUnavailable), server.Code != "", o.Network == "unix":
		return err
	case errors.As(err, &untrusted), errors.As(err, &op) && (op.Op == "dial" || op.Op == "remote error"): // no server, or one with TLS
		return err
	}
	if o.TLSConfig != nil {
		return fmt.Errorf("%w; if this port does not speak TLS, begin the URL with redis://", err)
	}
	return fmt.Errorf("%w; if this port speaks TLS, begin the URL with rediss://", err)
}
