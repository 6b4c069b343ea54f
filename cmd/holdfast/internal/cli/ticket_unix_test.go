//go:build unix

package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// A signal that comes before the server has answered is named, and what to do about the ticket.
func TestASignalBeforeTheServerAnswersIsNamed(t *testing.T) {
	o := &ticketFlags{ttl: defaultTicketTTL}
	o.defineTicket(pflag.NewFlagSet("release", pflag.ContinueOnError), "", "")
	o.redis = []string{"redis://127.0.0.1:1"}
	var stderr bytes.Buffer
	err := o.with(t.Context(), io.Discard, &stderr, func(ctx context.Context, q *question, _ *ticketReport) *exitcode.Error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		exit, _ := o.ticketFailure(ctx, q, ctx.Err())
		return exit
	})
	const want = "holdfast: terminated before the server answered; run holdfast release again"
	if got := strings.TrimSpace(stderr.String()); got != want || err == nil {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
}
