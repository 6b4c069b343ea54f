package faults

import (
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// scripts returns how many scripts the server has run, including commands and transactions that stand in for one.
func scripts(b *backend.Backend) int64 {
	stats := b.Server.CommandStats()
	return stats["evalsha"] + stats["delifeq"] + stats["exec"]
}
