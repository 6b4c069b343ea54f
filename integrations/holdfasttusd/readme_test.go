package holdfasttusd_test

import (
	"testing"
	"testing/synctest"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfasttusd"
)

// The lines of README.md work.
func TestREADME(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, locks := filestore.New(t.TempDir()), holdfasttest.New(t).Client

		composer := handler.NewStoreComposer()
		store.UseIn(composer)
		holdfasttusd.NewLocker(locks).UseIn(composer)

		lock, err := composer.Locker.NewLock("upload")
		if err != nil {
			t.Fatal(err)
		}
		must(t, "Lock", lock.Lock(t.Context(), never(t)))
		must(t, "Unlock", lock.Unlock())
	})
}
