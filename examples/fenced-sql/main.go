// Command fenced-sql shows a row in a database that refuses a holder which was paused
// past its lease. The database is SQLite, in a temporary folder; with PostgreSQL the code
// is the same, but for the driver's name and fence.Dollar. It needs nothing installed: go
// run ./fenced-sql
package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/scene"
	"github.com/holdfast-go/holdfast/fence"
)

const schema = `
	CREATE TABLE holdfast_marks (resource TEXT PRIMARY KEY, fence BIGINT NOT NULL, owner TEXT NOT NULL);
	CREATE TABLE account (balance BIGINT NOT NULL);
	INSERT INTO account VALUES (100)`

// account is a table. Statements about it know nothing of fences: the mark guards the
// transaction in which they are.
type account struct {
	db    *sql.DB
	marks *fence.SQL
}

func (a account) Add(ctx context.Context, lease *holdfast.Lease, amount int, think func()) error {
	stamp, err := fence.Of(lease)
	if err != nil {
		return err
	}
	// Before reading: from here on nobody with an earlier lease changes what is read.
	if err := a.marks.Raise(ctx, stamp, "account"); err != nil {
		return err
	}
	balance, err := a.Balance(ctx)
	if err != nil {
		return err
	}
	think() // outside a transaction, which would keep others from the database
	return a.marks.Do(ctx, stamp, "account", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = ?", balance+amount)
		return err
	})
}

func (a account) Balance(ctx context.Context) (balance int, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance)
	return balance, err
}

func open(file string) (account, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	return account{db, &fence.SQL{DB: db}}, err
}

var example = scene.Example{
	Create: func(*redis.Client) (string, func(), error) {
		dir, err := os.MkdirTemp("", "fenced-sql-")
		if err != nil {
			return "", nil, err
		}
		file := filepath.Join(dir, "account.db")
		a, err := open(file)
		if err == nil {
			_, err = a.db.Exec(schema)
			_ = a.db.Close()
		}
		return file, func() { _ = os.RemoveAll(dir) }, err
	},
	Open: func(_ *redis.Client, file string) (scene.Account, error) { return open(file) },
}

func main() { example.Main() }
