package engine

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// transactions is what a client knows of the transactions that acquire locks. The user may lack a command of them, and a proxy in front
// of the server may refuse them or close the connection.
type transactions struct {
	answered atomic.Bool  // one was carried out
	avoided  atomic.Int64 // the clock.Reading until which scripts acquire locks; or 0
}

// avoidedFor is how long scripts acquire locks after a transaction that was refused.
const avoidedFor = time.Minute

func (t *transactions) areAvoided() bool {
	until := t.avoided.Load()
	return until != 0 && until > int64(clock.Mono())
}

// noteTransaction notes how a transaction ended. One without an answer counts as refused if none has ever been answered.
func (c *Client) noteTransaction(err error) {
	t := &c.transactions
	if err == nil {
		if !t.answered.Load() {
			t.answered.Store(true)
		}
		return
	}
	fate, _ := exec.Classify(err)
	// An ASK, or that the user has no right to this key, says nothing of other locks.
	// mutants: transaction-refused
	refused := exec.IsLacking(err) && (strings.HasPrefix(err.Error(), "ERR ") || strings.Contains(err.Error(), "command"))
	// mutants: transaction-unanswered
	if !refused && (fate != exec.Unknown || t.answered.Load()) {
		return
	}
	// mutants: transactions-avoided
	t.avoided.Store(int64(clock.Mono().Add(avoidedFor)))
	c.warn(warning{
		what:        "the server, or a proxy in front of it, carries out no transactions",
		seen:        exec.Shown(err.Error()),
		consequence: "locks are acquired by scripts, which take the server longer",
		remedy:      "allow MULTI, EXEC and the other commands in docs/SECURITY.md; if that is not possible, set Config.ViaClient",
	})
}
