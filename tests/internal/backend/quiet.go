package backend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet is a logger for go-redis, which tells of every dial that fails: what matters comes
// back as an error anyway, and what a test says of itself would be lost among it.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
