package holdfastcertmagic_test

import (
	"testing"
	"testing/synctest"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfastcertmagic"
)

// The lines of README.md work.
func TestREADME(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, locks := &certmagic.FileStorage{Path: t.TempDir()}, holdfasttest.New(t).Client
		before := certmagic.Default.Storage
		defer func() { certmagic.Default.Storage = before }()

		certmagic.Default.Storage = holdfastcertmagic.Wrap(storage, locks)

		must(t, "Lock", certmagic.Default.Storage.Lock(t.Context(), "example.com"))
		must(t, "Unlock", certmagic.Default.Storage.Unlock(t.Context(), "example.com"))
	})
}
