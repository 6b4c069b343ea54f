package holdfastgoose_test

import (
	"database/sql"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfastgoose"
)

// The lines of README.md make a provider. Without a database they cannot migrate: see TestEachMigrationRunsOnce.
func TestREADME(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, db := holdfasttest.New(t).Client, sql.OpenDB(nothing{})
		t.Cleanup(func() { _ = db.Close() })
		migrations := fstest.MapFS{"00001_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id int);\n")}}

		locker := holdfastgoose.NewLocker(locks.Mutex("migrations/orders", holdfast.TTL(5*time.Minute)))
		provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithLocker(locker))

		if err != nil || len(provider.ListSources()) != 1 {
			t.Errorf("NewProvider: %v", err)
		}
	})
}
