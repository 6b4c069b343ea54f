package backend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet is a logger for go-redis, which logs every dial that fails. Errors that matter are returned anyway, and
// a test's own log would be lost among these lines.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
