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
