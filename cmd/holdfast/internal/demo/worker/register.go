package worker

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

// RegisterKey is the key of the register that a lock guards, in the lock's Cluster slot.
func RegisterKey(prefix, lock string) string { return prefix + "data:{" + lock + "}" }

// register is a value in Redis that holders of a lock change. It remembers the highest fence that it has seen, and
// refuses lower ones. A lock alone cannot do that, because a paused holder does not know yet that its lease is over.
type register struct {
	rdb redis.UniversalClient
	key string
}

// staleError is the refusal of a fence.
type staleError struct {
	fence, highest uint64
}

func (e *staleError) Error() string {
	return fmt.Sprintf("fence %d refused: the register has seen %d", e.fence, e.highest)
}

// read makes the register refuse lower fences, and returns its value. After an error nothing has changed, unless the
// connection failed.
func (r register) read(ctx context.Context, fence uint64) (string, error) {
	return parseReply(readScript.Run(ctx, r.rdb, []string{r.key}, fence), fence)
}

// write replaces the value. After an error nothing has changed, unless the connection failed.
func (r register) write(ctx context.Context, fence uint64, value string) error {
	_, err := parseReply(writeScript.Run(ctx, r.rdb, []string{r.key}, fence, value), fence)
	return err
}

func parseReply(cmd *redis.Cmd, fence uint64) (string, error) {
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
	highest, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("register has seen the fence %q", text)
	}
	return "", &staleError{fence, highest}
}
