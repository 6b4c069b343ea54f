package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// lookFlags are the flags of commands that look at locks, and what they look with.
type lookFlags struct {
	serverFlags
	json bool
	by   string // who acts, for the record; "" of those that only look

	servers *connect.Servers
	console *console.Console
}

func newLookFlags(command string) lookFlags { return lookFlags{serverFlags: newServerFlags(command)} }

func (o *lookFlags) define(json string) {
	o.serverFlags.define(oneOrMore)
	o.flags.BoolVar(&o.json, "json", false, json)
}

// look opens the servers and calls f, whose context a signal ends. It returns how to exit.
func (o *lookFlags) look(ctx context.Context, stderr io.Writer, f func(ctx context.Context, in *inspect.Inspector) error) (err error) {
	if o.servers, o.console, err = o.open(stderr); err != nil {
		return err
	}
	defer o.servers.Close()
	cfg := o.config(o.prefix)
	cfg.Owner, cfg.Logger = o.by, o.console.Logger()
	locks, err := o.servers.Locks(cfg, 0)
	if err != nil {
		return err
	}
	defer locks.Close(connect.CloseTime)
	ctx, stop := signals.Context(ctx)
	defer stop()
	err = f(ctx, locks.Inspector())
	var sig signals.Error
	var exit *exitcode.Error
	switch {
	case errors.As(context.Cause(ctx), &sig):
		return &exitcode.Error{Code: exitcode.Signal + signals.Number(sig.Signal)}
	case err == nil || errors.As(err, &exit):
		return err
	}
	o.console.Error(o.servers.Explain(o.explainDenied(err)))
	return &exitcode.Error{Code: exitcode.OfLibrary(err).Code}
}

// config returns the configuration with which to look at the locks of a prefix.
func (o *lookFlags) config(prefix string) *holdfast.Config {
	if o.servers.AreQuorum() {
		return strictConfig(defaultStrictTTL, prefix)
	}
	return &holdfast.Config{Prefix: prefix}
}

// report returns what is known of a lock, for JSON.
func (o *lookFlags) report(s holdfast.Status) *lockstatus.Report {
	return lockstatus.NewReport(s, o.servers.AreQuorum())
}

// explainDenied adds to an error which role has the rights that were lacking.
func (o *lookFlags) explainDenied(err error) error {
	var server *holdfast.ServerError
	if !errors.As(err, &server) || server.Code != "NOPERM" {
		return err
	}
	if o.by != "" {
		return withAdvice{err, "; the role breaker in docs/SECURITY.md has what this needs"}
	}
	return withAdvice{err, "; the role inspector in docs/SECURITY.md has what looking at locks needs"}
}

// withAdvice is an error with a next step.
type withAdvice struct {
	error
	advice string
}

func (e withAdvice) Error() string { return e.error.Error() + e.advice }

func (e withAdvice) Unwrap() error { return e.error }

// shellWord returns a text as one word of a command line for a shell, to be copied.
func shellWord(text string) string {
	isPlain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:@%+,", r)
	}
	switch {
	case text != "" && !strings.HasPrefix(text, "-") && !strings.ContainsFunc(text, func(r rune) bool { return !isPlain(r) }):
		return text
	case printable.Line(text, len(text)) == text:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return "$'" + strings.ReplaceAll(printable.Line(strings.ReplaceAll(text, `\`, `\\`), 2*len(text)), "'", `\'`) + "'"
}
