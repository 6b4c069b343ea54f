package engine

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/pipe"
)

// transactions is what a client knows about the transactions that acquire locks. The user may lack the right to one of their commands, and
// a proxy in front of the server may refuse transactions or close the connection.
type transactions struct {
	answered atomic.Bool  // a transaction was carried out
	lost     atomic.Int64 // the clock.Reading when a transaction first went unanswered; or 0
	avoided  atomic.Int64 // the clock.Reading until which scripts acquire locks instead; or 0
}

// avoidedFor is how long scripts acquire locks after a transaction was refused.
const avoidedFor = time.Minute

func (t *transactions) areAvoided() bool {
	until := t.avoided.Load()
	return until != 0 && until > int64(clock.Mono())
}

// noteTransaction records how a transaction ended. Until one has been answered, the second in a row to go unanswered counts as refused; the
// first may only have met a broken connection.
func (c *Client) noteTransaction(call *pipe.Call, err error) {
	t := &c.transactions
	// mutants: transaction-done
	if err == nil || call.Now != 0 { // it was carried out, even if one of its commands failed
		if !t.answered.Load() {
			t.answered.Store(true)
		}
		return
	}
	fate, _ := exec.Classify(err)
	// An ASK, or a missing right to this key, says nothing about other locks.
	// mutants: transaction-refused
	refused := exec.IsLacking(err) && (strings.HasPrefix(err.Error(), "ERR ") || strings.Contains(err.Error(), "command"))
	// mutants: transaction-unanswered
	if !refused && (fate != exec.Unknown || t.answered.Load()) {
		return
	}
	now := clock.Mono()
	// mutants: transaction-lost-once
	if !refused && (t.lost.CompareAndSwap(0, int64(now)) || int64(now-time.Since(call.Began)) < t.lost.Load()) {
		return
	}
	// mutants: transactions-avoided
	t.avoided.Store(int64(now + avoidedFor))
	c.Warn(lock.Warning{
		What:        "the server, or a proxy in front of it, carries out no transactions",
		Seen:        exec.Shown(err.Error()),
		Consequence: "locks are acquired by scripts, which take the server longer",
		Remedy:      "allow MULTI, EXEC and the other commands in docs/SECURITY.md; if that is not possible, set Config.ViaClient",
	})
}
