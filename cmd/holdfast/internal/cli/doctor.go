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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// doctorOptions are the flags of holdfast doctor.
type doctorOptions struct {
	serverOptions
	ttl   time.Duration
	watch time.Duration
	json  bool
}

func newDoctorOptions() *doctorOptions {
	o := &doctorOptions{ttl: 15 * time.Second, watch: time.Second}
	f := o.define("doctor")
	f.Var((*span)(&o.ttl), "ttl", "lease time `DUR` that the server is to be good for")
	f.Var((*span)(&o.watch), "clock", "watch the server's clock for `DUR`")
	f.BoolVar(&o.json, "json", false, "print nothing but the report, as one JSON object")
	return o
}

func doctorHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast doctor [flags]

Examines a server, or all those of a Cluster or behind sentinels, or the nodes of a
quorum (--redis for each), and says what about them endangers locks: what was seen,
what follows for locks, what to do. It takes locks on a throwaway name, and leaves
nothing but the fence counter. What this user may not ask is said not to be checked.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Checks, by the ids that --json has:
`, newDoctorOptions().flags.FlagUsages(), defaultRedis)
	for _, c := range doctor.Checks {
		fmt.Fprintf(w, "  %-14s %s\n", c.ID, c.About)
	}
	fmt.Fprintf(w, `
Report (--json): server, mode (server, sentinel, cluster or quorum), servers, worst,
  exit_code, unchecked (the checks for which it is 3) and findings, each with id, severity (problem, warning, note, not
  checked or ok), servers, saw, consequence and remedy; the worst first.

Exit codes:
    0  nothing worse than a note       %3d  wrong usage
    1  warnings: locks work, but a     %3d  server unreachable
       fault can break their promise   %3d  credentials refused
    2  problems: locks do not work,    %3d  wrong configuration
       or do not hold                  %3d  interrupted (INT; also 129, 131, 143)
    3  none of these, but something was not checked without which the server is
       not known to be safe: as a user that may send INFO and CONFIG GET it would be
`, exitUsage, exitUnavailable, exitRefused, exitConfig, exitSignal+2)
}

func examine(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newDoctorOptions()
	if wantsHelp(args) {
		doctorHelp(stdout)
		return nil
	}
	if err := o.parse(args); err != nil {
		return err
	}
	switch {
	case o.ttl < minTTL || o.ttl > maxTTL:
		return configError("--ttl %s: want %s to %s", o.ttl, minTTL, maxTTL)
	case o.watch < 0 || o.watch > time.Hour:
		return configError("--clock %s: want at most 1h", o.watch)
	}
	s, v, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, stop := interruptible(ctx)
	defer stop()
	var nodes []doctor.Config
	for _, e := range s.all {
		nodes = append(nodes, doctor.Config{Client: e.client, Addr: e.addr, Sentinel: e.sentinel, Prefix: o.prefix, TTL: o.ttl, Watch: o.watch})
	}
	var report *doctor.Report
	if s.quorum() {
		report, err = doctor.ExamineQuorum(ctx, nodes)
	} else {
		report, err = doctor.Examine(ctx, nodes[0])
	}
	if err != nil {
		v.fail(s.explain(err))
		return &exitError{doctorCode(err), nil}
	}
	report.Redact(v.redact)
	var text bytes.Buffer
	if o.json {
		err = writeJSON(&text, report)
	} else {
		f, ok := stdout.(*os.File)
		err = report.Write(&text, ok && tty.Is(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
	}
	if err == nil {
		_, err = stdout.Write(text.Bytes())
	}
	if err != nil {
		return unwritten(err)
	}
	if report.ExitCode == 0 {
		return nil
	}
	return &exitError{report.ExitCode, nil}
}

func doctorCode(err error) int {
	var sig signaled
	if errors.As(err, &sig) {
		return exitSignal + number(sig.Signal)
	}
	if errors.Is(err, holdfast.ErrInvalid) {
		return exitConfig // a prefix
	}
	return failure(err).code
}
