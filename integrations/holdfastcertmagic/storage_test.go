package holdfastcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfastcertmagic"
)

// issuer takes a while to issue a certificate, and counts them.
type issuer struct{ issued atomic.Int64 }

func (i *issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.issued.Add(1)
	time.Sleep(5 * time.Minute)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// server returns a server that obtains certificates, like one of another process.
func server(t *testing.T, storage certmagic.Storage, i *issuer) *certmagic.Config {
	t.Helper()
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
	})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{i}})
	return config
}

// Servers that need the same certificate at the same time get one from the issuer, however long that takes.
func TestACertificateIsObtainedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i issuer
		dir, srv := t.TempDir(), holdfasttest.Run(t)
		var all sync.WaitGroup
		for range 3 {
			storage := holdfastcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, srv.NewClient(t, nil).Client)
			s := server(t, storage, &i)
			all.Go(func() {
				if err := s.ObtainCertSync(t.Context(), "example.com"); err != nil {
					t.Errorf("ObtainCertSync: %v", err)
				}
			})
		}
		all.Wait()
		if n := i.issued.Load(); n != 1 {
			t.Errorf("%d certificates were issued", n)
		}
	})
}

func wrap(t *testing.T, c *holdfasttest.Client) certmagic.Storage {
	return holdfastcertmagic.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, c.Client)
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := holdfasttest.New(t)
		s, other := wrap(t, one), wrap(t, one.Server.NewClient(t, nil))
		must(t, "Lock", s.Lock(t.Context(), "a"))
		for _, x := range []certmagic.Storage{s, other} {
			if ok, err := x.(certmagic.TryLocker).TryLock(t.Context(), "a"); ok || err != nil {
				t.Errorf("TryLock of a lock that is held: %v, %v", ok, err)
			}
		}
		must(t, "Unlock", s.Unlock(t.Context(), "a"))
		if ok, err := other.(certmagic.TryLocker).TryLock(t.Context(), "a"); !ok || err != nil {
			t.Errorf("TryLock of a free lock: %v, %v", ok, err)
		}
		must(t, "Unlock", other.Unlock(t.Context(), "a"))
		if err := s.Unlock(t.Context(), "a"); err == nil {
			t.Error("Unlock of a lock that is not locked succeeds")
		}
		one.Partition()
		if ok, err := s.(certmagic.TryLocker).TryLock(t.Context(), "a"); ok || err == nil {
			t.Errorf("TryLock without a server: %v, %v", ok, err)
		}
	})
}

// Goroutines of one process that lock the same name take turns, as those of several do.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := holdfasttest.New(t)
		inside := 0
		var all sync.WaitGroup
		for _, s := range []certmagic.Storage{wrap(t, one), wrap(t, one.Server.NewClient(t, nil))} {
			for range 3 {
				all.Go(func() {
					for range 5 {
						must(t, "Lock", s.Lock(t.Context(), "a"))
						if inside++; inside != 1 {
							t.Errorf("%d are inside", inside)
						}
						time.Sleep(time.Minute)
						inside--
						must(t, "Unlock", s.Unlock(t.Context(), "a"))
					}
				})
			}
		}
		all.Wait()
	})
}

// A lock that was lost is acquired again by the next try, and unlocking it is no error.
func TestALostLockIsAcquiredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := holdfasttest.New(t)
		s, other := wrap(t, one), wrap(t, one.Server.NewClient(t, nil))
		renew := func() error {
			return s.(certmagic.LockLeaseRenewer).RenewLockLease(t.Context(), "a", 30*24*time.Hour)
		}
		must(t, "Lock", s.Lock(t.Context(), "a"))
		must(t, "RenewLockLease", renew())
		one.Expire("certmagic/a")
		must(t, "Lock of the other", other.Lock(t.Context(), "a"))
		time.AfterFunc(time.Hour, func() { must(t, "Unlock of the other", other.Unlock(t.Context(), "a")) })
		began := time.Now()
		must(t, "RenewLockLease", renew())
		if took := time.Since(began); took < time.Hour {
			t.Errorf("it has the lock after %s, while the other has it", took)
		}
		must(t, "Unlock", s.Unlock(context.Background(), "a"))

		must(t, "Lock", s.Lock(t.Context(), "a"))
		one.Expire("certmagic/a")
		must(t, "Unlock of a lost lock", s.Unlock(t.Context(), "a"))
		if err := renew(); err == nil {
			t.Error("RenewLockLease of a lock that is not locked succeeds")
		}
	})
}
