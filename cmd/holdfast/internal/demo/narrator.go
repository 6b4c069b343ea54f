package demo

import (
	"fmt"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/format"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/worker"
)

// narrator says on a screen what happens.
type narrator struct {
	*screen.Screen
	began history.Instant // of the second act
}

func newNarrator(s *screen.Screen) *narrator { return &narrator{Screen: s} }

// open says what is about to happen.
func (n *narrator) open(workers int, server string) {
	n.Line(fmt.Sprintf("%s  %d processes, %s, lease time %s",
		n.Bold("Holdfast demo"), workers, server, format.Duration(ttl)))
}

// lottery introduces the first act.
func (n *narrator) lottery(cfg Config) {
	title, end := "1  The lottery", "Redis, takes its time, and writes it back: without a lock, draws collide."
	if cfg.NoLock {
		title, end = "The lottery, without a lock", "Redis, takes its time, and writes it back, over what others wrote meanwhile."
	}
	n.Line("")
	n.Line(n.Bold(title))
	n.Line(n.Dim(fmt.Sprintf("   %d processes race to draw %d winners from %d entrants. A draw reads a list in",
		cfg.Workers, history.Places, len(worker.Entrants))))
	n.Line(n.Dim("   " + end))
	n.Line("")
}

// winner shows a draw.
func (n *narrator) winner(e history.Event) {
	n.Line(fmt.Sprintf("   %2d  %-22s %s", e.Place, e.Winner, n.Dim(fmt.Sprintf("drawn by worker %d", e.Worker))))
}

// ledger introduces the second act.
func (n *narrator) ledger(h *history.History, workers int) {
	n.Line("")
	n.Line(n.Bold("2  The ledger, and two accidents"))
	n.Line(n.Dim("   Again and again, each worker reads a total, adds one, and writes it back."))
	n.Line(n.Dim("   Each grant has a higher fence than the last; the ledger refuses lower ones."))
	n.Line("")
	n.began = history.Now()
	n.Show(&lanes{history: h, workers: workers, began: n.began})
	n.sayf("%d workers at work", workers)
}

// sayf says what happens in the second act, and when.
func (n *narrator) sayf(format string, args ...any) {
	n.Line(fmt.Sprintf("   %s  %s", n.Dim(fmt.Sprintf("%4.1f s", history.Now().Sub(n.began).Seconds())), fmt.Sprintf(format, args...)))
}
