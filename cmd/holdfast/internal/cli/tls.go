package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/url"
	"os"
)

// tlsOf takes the parameters that are about TLS out of u. use makes them those of the
// configuration that go-redis makes for rediss://, and reports whether that leaves the
// server's certificate unverified.
func tlsOf(u *url.URL, source string) (use func(*tls.Config) (unverified bool), err error) {
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
			return nil, configError("the URL in %s has parameters for TLS, but does not begin with rediss", source)
		}
	}
	var authorities *x509.CertPool
	if file, ok := given["tls_ca"]; ok {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, configError("tls_ca in %s: the file cannot be read: %w", source, unnamed(err))
		}
		authorities = x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(text) {
			return nil, configError("tls_ca in %s: no certificate in PEM is in the file", source)
		}
	}
	var own []tls.Certificate
	cert, hasCert := given["tls_cert"]
	key, hasKey := given["tls_key"]
	if hasCert != hasKey {
		return nil, configError("tls_cert and tls_key in %s: one needs the other", source)
	}
	if hasCert {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, configError("tls_cert and tls_key in %s: %w", source, unnamed(err))
		}
		own = append(own, pair)
	}
	return func(c *tls.Config) bool {
		if c == nil {
			return false
		}
		c.RootCAs, c.Certificates = authorities, own
		if name, ok := given["tls_server_name"]; ok {
			c.ServerName = name
		}
		return c.InsecureSkipVerify
	}, nil
}

// unnamed is an error about a file without the file's name, which stands in the URL, and
// is not shown as the rest of it is not.
func unnamed(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
