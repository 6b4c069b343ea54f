package demo

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/read.lua
var readSource string

//go:embed lua/write.lua
var writeSource string

var (
	readScript  = redis.NewScript(readSource)
	writeScript = redis.NewScript(writeSource)
)

// register is a value in Redis that holders of a lock change. It remembers the
// highest fence that it has seen and refuses lower ones: what a lock alone
// cannot do, since a paused holder does not know yet that its time is over.
type register struct {
	rdb redis.UniversalClient
	key string
}

// staleError is the refusal of a fence.
type staleError struct {
	fence, mark uint64
}

func (e *staleError) Error() string {
	return fmt.Sprintf("fence %d refused: the register has seen %d", e.fence, e.mark)
}

// read raises the mark to fence and returns the value. Nothing changes after an
// error, unless it is one of the connection.
func (r register) read(ctx context.Context, fence uint64) (string, error) {
	return run(readScript.Run(ctx, r.rdb, []string{r.key}, fence), fence)
}

// write replaces the value. Nothing changes after an error, unless it is one of
// the connection.
func (r register) write(ctx context.Context, fence uint64, value string) error {
	_, err := run(writeScript.Run(ctx, r.rdb, []string{r.key}, fence, value), fence)
	return err
}

func run(cmd *redis.Cmd, fence uint64) (string, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return "", err
	}
	if len(reply) != 2 {
		return "", fmt.Errorf("register answered %d values, not 2", len(reply))
	}
	text, _ := reply[1].(string)
	if reply[0] == int64(1) {
		return text, nil
	}
	mark, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("register has the mark %q", text)
	}
	return "", &staleError{fence, mark}
}
