// Command fenced-sql shows a database table that refuses a holder that was paused beyond its lease. The database is
// SQLite, in a temporary folder. For PostgreSQL only the driver's name changes, and fence.Dollar is needed. It runs
// without any setup:
//
//	go run ./fenced-sql
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

// account is a table without columns for fences: the mark guards the transactions that write it.
type account struct {
	db    *sql.DB
	marks *fence.SQL
}

func (a account) Add(ctx context.Context, lease *holdfast.Lease, amount int, think func()) error {
	stamp, err := fence.Of(lease)
	if err != nil {
		return err
	}
	// After Raise no earlier holder can change the balance that is read below.
	if err := a.marks.Raise(ctx, stamp, "account"); err != nil {
		return err
	}
	balance, err := a.Balance(ctx)
	if err != nil {
		return err
	}
	think() // not in a transaction, which would block other writers
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
