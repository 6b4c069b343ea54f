package connect

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// tlsParameters are the parameters of a URL that go-redis does not know.
type tlsParameters struct {
	authorities *x509.CertPool
	own         []tls.Certificate
	serverName  string // "" if the URL does not name one
}

// takeTLSParameters removes the parameters for TLS from u. Its errors do not quote the URL.
func takeTLSParameters(u *url.URL, source string) (p tlsParameters, err error) {
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
			return p, exitcode.Configf("the URL in %s has parameters for TLS, but does not begin with rediss", source)
		}
	}
	p.serverName = given["tls_server_name"]
	if file, ok := given["tls_ca"]; ok {
		text, err := readFile(file)
		if err != nil {
			return p, exitcode.Configf("tls_ca in %s: cannot read the file: %w", source, withoutPath(err))
		}
		p.authorities = x509.NewCertPool()
		if !p.authorities.AppendCertsFromPEM(text) {
			return p, exitcode.Configf("tls_ca in %s: the file has no certificate in PEM", source)
		}
	}
	cert, hasCert := given["tls_cert"]
	key, hasKey := given["tls_key"]
	if hasCert != hasKey {
		return p, exitcode.Configf("tls_cert and tls_key in %s: one needs the other", source)
	}
	if hasCert {
		certText, err := readFile(cert)
		keyText, err2 := readFile(key)
		pair, err3 := tls.X509KeyPair(certText, keyText)
		if err := cmp.Or(err, err2, err3); err != nil {
			return p, exitcode.Configf("tls_cert and tls_key in %s: %w", source, withoutPath(err))
		}
		p.own = append(p.own, pair)
	}
	return p, nil
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

// apply adds the parameters to the configuration that go-redis has made, which is nil unless the scheme is rediss. It reports
// whether the server's certificate is left unverified.
func (p tlsParameters) apply(c *tls.Config) (unverified bool) {
	if c == nil {
		return false
	}
	c.RootCAs, c.Certificates = p.authorities, p.own
	if p.serverName != "" {
		c.ServerName = p.serverName
	}
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
	o := s.client.(*redis.Client).Options()
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
