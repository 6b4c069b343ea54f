package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

const watchHelp = `Prints a line for each change of the locks whose names match PATTERN, as for holdfast ls, or
of all, until ^C. For a table that is drawn anew there is watch -n 1 holdfast ls, or
holdfast ui.

  holdfast watch
  holdfast watch --json nightly | jq -r '.event + " " + .holders[0].identity'

The changes are present (the lock was there at first), granted, queued (somebody waits who
did not before), released (or broken: see holdfast breaks) and expired; the rest of a line is
what is so after the change. The locks are looked at once a second, so what comes and goes
in between is not seen. While the server does not answer, watching goes on; only a server
that has never answered is an error. Of a quorum it is not known who waits.
`

func watch(f *pflag.FlagSet) action {
	o := &serverFlags{role: "inspector"}
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error { return o.follow(ctx, in, stdout) })
	}
}

// change is a change as JSON.
type change struct {
	Event inspect.EventType `json:"event"`
	*lockstatus.Report
}

// follow prints each change, until ctx ends.
func (o *serverFlags) follow(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	pattern := o.flags.Arg(0)
	// Watching waits for a server that does not answer. Asking first tells of a wrong address.
	if err := access.Reach(ctx, in, "watch", pattern); err != nil {
		return err
	}
	outage := false
	for e, err := range in.Watch(ctx, pattern) {
		switch {
		case err == nil:
			outage = false
			s := lockstatus.Summarize(e.Status)
			text := fmt.Sprintf("%s  %-8s  %s  %s", time.Now().Format(time.TimeOnly), e.Type, s.Name, s.Holders)
			if awaited := s.Awaited(); awaited != "" {
				text += ", awaited by " + awaited
			}
			report := lockstatus.NewReport(e.Status, o.servers.AreQuorum())
			if err := printResult(stdout, o.json, change{e.Type, report}, text+"\n"); err != nil {
				return err
			}
		case e.Status.Name != "":
			o.console.Error(err)
		case !errors.Is(err, holdfast.ErrUnavailable):
			return err
		case !outage:
			outage = true
			o.console.Warnf("%v; watching goes on", err)
		}
	}
	return ctx.Err()
}
