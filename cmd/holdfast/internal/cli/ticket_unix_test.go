//go:build unix

package cli

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/transfer"
)

// If a signal arrives before the server has answered, the message names it and says what to do about the ticket.
func TestASignalBeforeTheServerAnswersIsNamed(t *testing.T) {
	o, f := &ticketFlags{}, pflag.NewFlagSet("release", pflag.ContinueOnError)
	o.defineTicket(f, "")
	name := filepath.Join(t.TempDir(), "t")
	must(t, f.Parse([]string{"--redis", "redis://127.0.0.1:1", "--ticket", name}))
	must(t, o.place.write(t.Context(), newTicket(t), ""))
	var stderr bytes.Buffer
	err := o.withTicket(func(ctx context.Context, _ *holdfast.Client, _ transfer.Ticket, _ *outcome) error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return ctx.Err()
	})(t.Context(), nil, io.Discard, &stderr)
	const want = "holdfast: terminated before the server answered; run holdfast release again"
	if got := strings.TrimSpace(stderr.String()); got != want || err == nil {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
}
