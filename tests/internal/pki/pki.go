// Package pki makes certificates for tests, and servers that use them.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Authority issues certificates.
type Authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	File string // its certificate, in PEM
}

// Pair is a certificate and its key, as files in PEM.
type Pair struct{ Cert, Key string }

// NewAuthority makes an authority that only the test trusts.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	a.key = newKey(tb)
	template := template(name, time.Now().Add(time.Hour))
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	expect.OK(tb, err)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.File = write(tb, "CERTIFICATE", der)
	return a
}

// Issue makes a certificate for a host name or an IP address, valid until then.
func (a *Authority) Issue(host string, until time.Time) Pair {
	a.tb.Helper()
	key := newKey(a.tb)
	template := template(host, until)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der := expect.Of(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)).OK(a.tb)
	secret := expect.Of(x509.MarshalECPrivateKey(key)).OK(a.tb)
	return Pair{write(a.tb, "CERTIFICATE", der), write(a.tb, "EC PRIVATE KEY", secret)}
}

// Pool returns a pool with the authority, for clients that trust it.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Load loads the pair for a client or a server.
func (p Pair) Load(tb testing.TB) tls.Certificate {
	tb.Helper()
	return expect.Of(tls.LoadX509KeyPair(p.Cert, p.Key)).OK(tb)
}

func template(name string, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	return expect.Of(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).OK(tb)
}

func write(tb testing.TB, kind string, der []byte) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "a.pem")
	expect.OK(tb, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// Listen makes a server listen with TLS as well, and returns the address. If trusted is not nil, clients need a
// certificate of that authority. It skips the test, loudly, if the server was built without TLS.
func Listen(tb testing.TB, s *server.Server, pair Pair, trusted *Authority) (addr string) {
	tb.Helper()
	if known, err := s.Do("CONFIG", "GET", "tls-port"); err != nil {
		tb.Fatal(err)
	} else if len(known.([]any)) == 0 {
		tb.Skip("NOT TESTED: this server was built without TLS")
	}
	auth, ca := "no", pair.Cert
	if trusted != nil {
		auth, ca = "yes", trusted.File
	}
	var last error
	for range 10 { // another process may take the port
		l := expect.Of(net.Listen("tcp", "127.0.0.1:0")).OK(tb)
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		_, last = s.Do("CONFIG", "SET", "tls-cert-file", pair.Cert, "tls-key-file", pair.Key, "tls-ca-cert-file", ca, "tls-auth-clients", auth, "tls-port", port)
		if last == nil {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	tb.Fatal(last)
	return ""
}
