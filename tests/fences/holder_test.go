package fences

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// roleVariable makes the test binary a holder instead of running tests.
const roleVariable = "HOLDFAST_FENCES_ROLE"

// The roles of a holder that will be paused.
const (
	between = "between transactions"
	within  = "within a transaction"
)

// hold acquires the lock, raises the mark and prints "holding". When it gets a line, it writes without a look
// at its lease, as a paused process would. It prints "written", "stale", or another outcome.
func hold() {
	err := lateWrite(os.Getenv(roleVariable), os.Args[1], os.Args[2])
	switch {
	case err == nil:
		fmt.Println("written")
	case errors.Is(err, fence.ErrStale):
		fmt.Println("stale")
	default:
		fmt.Println("error", err)
	}
}

func lateWrite(role, redisAddr, dsn string) error {
	ctx := context.Background()
	locks, err := holdfastgoredis.New(redis.NewClient(&redis.Options{Addr: redisAddr}), &holdfast.Config{CommandTimeout: 4 * time.Second})
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	marks := &fence.SQL{DB: db, Placeholders: fence.Dollar}
	lease, err := locks.Mutex("ledger", holdfast.TTL(400*time.Millisecond)).Acquire(ctx)
	if err != nil {
		return err
	}
	stamp, err := fence.Of(lease)
	if err != nil {
		return err
	}
	wait := func() {
		fmt.Println("holding")
		bufio.NewScanner(os.Stdin).Scan()
	}
	write := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE ledger SET total = 999 WHERE id = 1")
		return err
	}
	if role == within {
		return marks.Do(ctx, stamp, "ledger", func(tx *sql.Tx) error {
			err := write(tx)
			wait()
			return err
		})
	}
	if err := marks.Raise(ctx, stamp, "ledger"); err != nil {
		return err
	}
	wait()
	return marks.Do(ctx, stamp, "ledger", write)
}
