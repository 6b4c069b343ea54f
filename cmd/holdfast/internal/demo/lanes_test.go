package demo

import (
	"io"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history/historytest"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
)

func TestLanes(t *testing.T) {
	h := historytest.Sound()
	var last history.Instant
	for _, e := range h.Events {
		last = max(last, e.At)
	}
	l := &lanes{history: h, workers: 3, began: 2000 * historytest.MS}
	got := strings.Join(l.drawUntil(screen.New(io.Discard), 80, last), "\n")
	want := strings.Join([]string{
		"",
		"   worker 1   ✗···············       1 turns",
		"   worker 2          zzzzzzzzz       2 turns",
		"   worker 3          ░       ░       3 turns",
		"              the share of time with the lock   ✗ killed   z paused",
	}, "\n")
	if got != want {
		t.Errorf("the picture is\n%s\nnot\n%s", got, want)
	}
}
