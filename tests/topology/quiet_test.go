package topology

import "context"

// quiet is a logger for go-redis: of failovers it says much, and what matters comes
// back as an error.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
