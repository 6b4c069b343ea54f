package holdfastgoose_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfastgoose"
)

// table is goose's table of versions, in memory: a database.Store.
type table struct {
	mu       sync.Mutex
	versions []int64 // applied, oldest first
}

func (s *table) Tablename() string { return "versions" }

func (s *table) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	return s.Insert(ctx, db, database.InsertRequest{})
}

func (s *table) Insert(_ context.Context, _ database.DBTxConn, req database.InsertRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, req.Version)
	return nil
}

func (s *table) Delete(context.Context, database.DBTxConn, int64) error {
	return errors.New("nothing is migrated down")
}

func (s *table) GetMigration(_ context.Context, _ database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		if v == version {
			return &database.GetMigrationResult{IsApplied: true}, nil
		}
	}
	return nil, database.ErrVersionNotFound
}

func (s *table) GetLatestVersion(context.Context, database.DBTxConn) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.versions) == 0 {
		return 0, database.ErrVersionNotFound
	}
	return s.versions[len(s.versions)-1], nil
}

func (s *table) ListMigrations(context.Context, database.DBTxConn) (all []*database.ListMigrationsResult, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		all = append([]*database.ListMigrationsResult{{Version: v, IsApplied: true}}, all...)
	}
	return all, nil
}

// nothing is a database that has nothing but empty transactions.
type nothing struct{}

func (nothing) Connect(context.Context) (driver.Conn, error) { return nothing{}, nil }
func (nothing) Driver() driver.Driver                        { return nil }
func (nothing) Begin() (driver.Tx, error)                    { return nothing{}, nil }
func (nothing) Commit() error                                { return nil }
func (nothing) Rollback() error                              { return nil }
func (nothing) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (nothing) Close() error                                 { return nil }

// migrator returns what migrates the database in one process. Each migration takes ten minutes.
func migrator(t *testing.T, versions *table, l *holdfast.Lock, migrated func(version int64)) *goose.Provider {
	t.Helper()
	db := sql.OpenDB(nothing{})
	t.Cleanup(func() { _ = db.Close() })
	var all []*goose.Migration
	for version := range int64(3) {
		all = append(all, goose.NewGoMigration(version+1, &goose.GoFunc{RunDB: func(context.Context, *sql.DB) error {
			time.Sleep(10 * time.Minute)
			migrated(version + 1)
			return nil
		}}, nil))
	}
	p, err := goose.NewProvider("", db, nil, goose.WithStore(versions), goose.WithGoMigrations(all...),
		goose.WithDisableGlobalRegistry(true), goose.WithLocker(holdfastgoose.NewLocker(l)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Of processes that migrate at the same time, one runs each migration.
func TestEachMigrationRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var versions table
		var mu sync.Mutex
		var ran []int64
		srv := holdfasttest.Run(t)
		var all sync.WaitGroup
		for range 3 {
			p := migrator(t, &versions, srv.NewClient(t, nil).Mutex("migrations"), func(version int64) {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, version)
			})
			all.Go(func() {
				if _, err := p.Up(t.Context()); err != nil {
					t.Errorf("Up: %v", err)
				}
			})
		}
		all.Wait()
		if len(ran) != 3 {
			t.Errorf("the migrations that ran: %d", ran)
		}
	})
}

// A process that loses the lock learns it from the unlock, and can lock again.
func TestALossIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var versions table
		c := holdfasttest.New(t)
		p := migrator(t, &versions, c.Mutex("migrations"), func(version int64) {
			if version == 1 {
				c.Expire("migrations")
			}
		})
		if _, err := p.Up(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Up: %v", err)
		}
		if _, err := p.Up(t.Context()); err != nil {
			t.Errorf("Up, once more: %v", err)
		}
	})
}

// A process that does not get the lock in time migrates nothing.
func TestALimitForWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var versions table
		c := holdfasttest.New(t)
		lease, err := c.Server.NewClient(t, nil).Mutex("migrations").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(context.Background())
		p := migrator(t, &versions, c.Mutex("migrations", holdfast.Wait(time.Minute)), func(version int64) {
			t.Errorf("migration %d runs", version)
		})
		if _, err := p.Up(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Up: %v", err)
		}
	})
}

func TestUnlockWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfastgoose.NewLocker(holdfasttest.New(t).Mutex("migrations"))
		if err := l.Unlock(t.Context(), nil); err == nil {
			t.Error("it succeeds")
		}
	})
}
