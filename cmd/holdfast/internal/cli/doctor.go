package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// doctorFlags are the flags of holdfast doctor.
type doctorFlags struct {
	serverFlags
	ttl   time.Duration
	watch time.Duration
	json  bool
}

func newDoctorFlags() *doctorFlags {
	o := &doctorFlags{serverFlags: newServerFlags("doctor"), ttl: 15 * time.Second, watch: time.Second}
	o.define(oneOrMore)
	o.flags.Var((*seconds)(&o.ttl), "ttl", "lease time `DUR` that the server must be good for")
	o.flags.Var((*seconds)(&o.watch), "clock", "watch the server's clock for `DUR`")
	o.flags.BoolVar(&o.json, "json", false, "print only the report, as one JSON object")
	return o
}

func doctorHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast doctor [flags]

Examines a server, or all servers of a Cluster or behind sentinels, or the nodes of a
quorum (--redis for each), and says what about them endangers locks: what it saw, what
that means for locks, and what to do. It takes locks on a throwaway name, and leaves
nothing behind but the fence counter. What this user may not ask is reported as not
checked.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Checks, by their ids in --json:
`, newDoctorFlags().flags.FlagUsages(), connect.Default)
	for _, c := range report.Checks {
		fmt.Fprintf(w, "  %-14s %s\n", c.ID, c.About)
	}
	fmt.Fprintf(w, `
Report (--json): server, mode (server, sentinel, cluster or quorum), servers, worst,
  exit_code, unchecked (the checks that make it 3), and findings, the worst first: each
  has id, severity (problem, warning, note, not checked or ok), servers, saw,
  consequence and remedy.

Exit codes:
    0  nothing worse than a note       %3d  wrong usage
    1  warnings: locks work, but a     %3d  server unavailable
       fault can break their promise   %3d  credentials refused
    2  problems: locks do not work,    %3d  wrong configuration
       or do not hold                  %3d  interrupted (INT; also 129, 131, 143)
    3  none of these, but a check was impossible without which the server is not
       known to be safe: ask as a user that may send INFO and CONFIG GET
`, exitcode.Usage, exitcode.Unavailable, exitcode.Denied, exitcode.Config, exitcode.Signal+2)
}

func examine(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newDoctorFlags()
	if err := parseOnlyFlags(o.flags, args); err != nil {
		return err
	}
	switch {
	case o.ttl < minTTL || o.ttl > maxTTL:
		return exitcode.Configf("--ttl %s: want %s to %s", o.ttl, minTTL, maxTTL)
	case o.watch < 0 || o.watch > time.Hour:
		return exitcode.Configf("--clock %s: want at most 1h", o.watch)
	}
	s, c, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, stop := signals.Context(ctx)
	defer stop()
	var nodes []doctor.Config
	for _, one := range s.All {
		nodes = append(nodes, doctor.Config{Client: one.Client(), Addr: one.Addr, Sentinel: one.Sentinel, Prefix: o.prefix, TTL: o.ttl, Watch: o.watch})
	}
	var found *report.Report
	if s.AreQuorum() {
		found, err = doctor.ExamineQuorum(ctx, nodes)
	} else {
		found, err = doctor.Examine(ctx, nodes[0])
	}
	if err != nil {
		c.Error(s.Explain(err))
		return &exitcode.Error{Code: doctorCode(err)}
	}
	found.Redact(c.Redact)
	var text bytes.Buffer
	if o.json {
		err = output.WriteJSON(&text, found)
	} else {
		err = found.Write(&text, console.IsTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
	}
	if err == nil {
		_, err = stdout.Write(text.Bytes())
	}
	if err != nil {
		return exitcode.OfOutput(err)
	}
	if found.ExitCode == 0 {
		return nil
	}
	return &exitcode.Error{Code: found.ExitCode}
}

func doctorCode(err error) int {
	var sig signals.Error
	if errors.As(err, &sig) {
		return exitcode.Signal + signals.Number(sig.Signal)
	}
	if errors.Is(err, holdfast.ErrInvalid) {
		return exitcode.Config // a prefix
	}
	return exitcode.OfLibrary(err).Code
}
