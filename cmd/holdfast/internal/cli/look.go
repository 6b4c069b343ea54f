package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// lookFlags are the flags of commands that look at locks.
type lookFlags struct {
	serverFlags
	json bool
	by   string // who acts, for the record; "" of those that only look
}

// define defines the flags. json is the text of --json.
func (o *lookFlags) define(f *pflag.FlagSet, json string) {
	o.serverFlags.define(f, oneOrMore)
	f.BoolVar(&o.json, "json", false, json)
}

// look opens the servers and calls f, whose context a signal ends. It returns how to exit.
func (o *lookFlags) look(ctx context.Context, stderr io.Writer, f func(ctx context.Context, in *inspect.Inspector) error) error {
	if err := o.open(stderr); err != nil {
		return err
	}
	cfg := o.config(o.servers, o.prefix)
	cfg.Identity = o.by
	return o.use(ctx, cfg, func(ctx context.Context, locks *connect.Locks) error {
		return o.explainDenied(f(ctx, locks.Inspector()))
	})
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
		return withAdvice{err, "the role breaker in docs/SECURITY.md has what this needs"}
	}
	return withAdvice{err, "the role inspector in docs/SECURITY.md has what looking at locks needs"}
}

// withAdvice is an error with a next step.
type withAdvice struct {
	error
	advice string
}

func (e withAdvice) Error() string { return e.error.Error() + "; " + e.advice }

func (e withAdvice) Unwrap() error { return e.error }

// advised returns err with a next step, if there is one.
func advised(err error, advice string) error {
	if advice == "" {
		return err
	}
	return withAdvice{err, advice}
}

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
