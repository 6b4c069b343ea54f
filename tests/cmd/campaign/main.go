// Campaign runs random histories with faults against real servers, and judges each history.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/clockshim"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// campaigning runs a campaign as the arguments say, and returns the exit code: 1 if there were violations, 2 if
// the campaign could not be run.
func campaigning(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("campaign", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cfg := campaign.Config{Clock: func(tb testing.TB) campaign.Clock { return clockshim.New(tb) }}
	flags.DurationVar(&cfg.For, "for", 0, "run for so `long`; 0: for a minute, unless -histories says how many")
	flags.IntVar(&cfg.Histories, "histories", 0, "run so `many` histories; 0: until the time is over")
	flags.StringVar(&cfg.Dir, "dir", "", "keep histories with findings in this `folder`")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "`number` from which all histories follow; 0: any")
	flags.Uint64Var(&cfg.Replay, "replay", 0, "play the history of this `seed` again, with exactly the kinds given, -histories times")
	servers := flags.String("servers", "", "servers to choose from, by `name`, with commas; empty: all")
	kinds := flags.String("kinds", "", "kinds of faults to choose from, by `name`, with commas; none: no faults; empty: all")
	subject := flags.String("subject", "mutex", "the `kind` of lock: "+subjects())
	mode := flags.String("mode", string(campaign.Default), "default or strict: what the locks do when the server loses its data; of a quorum it is strict")
	list := flags.Bool("list", false, "list the kinds of faults")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	cfg.Mode = campaign.Mode(*mode)
	switch {
	case *kinds == "none":
		cfg.Calm = true
	case *kinds != "":
		cfg.Kinds = strings.Split(*kinds, ",")
	}
	fail := func(err error) int {
		fmt.Fprintln(stderr, "campaign:", err)
		return 2
	}
	if cfg.Mode != campaign.Default && cfg.Mode != campaign.Strict {
		return fail(fmt.Errorf("no mode %q", *mode))
	}
	for _, s := range campaign.Subjects {
		if s.Name() == *subject {
			cfg.Subject = s
		}
	}
	if cfg.Subject == nil {
		return fail(fmt.Errorf("no kind of lock %q; there are %s", *subject, subjects()))
	}
	if *list {
		return listKinds(stdout, &cfg)
	}
	all, err := server.All()
	if err != nil {
		return fail(err)
	}
	for _, b := range all {
		if *servers == "" || strings.Contains(","+*servers+",", ","+b.Name+",") {
			cfg.Servers = append(cfg.Servers, b)
		}
	}
	if len(cfg.Servers) == 0 {
		return fail(fmt.Errorf("there is no server named %s", *servers))
	}
	if cfg.For == 0 && cfg.Histories == 0 {
		cfg.For = time.Minute
	}
	report, err := campaign.Run(ctx, cfg)
	if report != nil {
		err = errors.Join(err, report.Write(stdout))
	}
	switch {
	case err != nil:
		return fail(err)
	case report.Violations > 0 || report.Inconclusive():
		return 1
	}
	return 0
}

// subjects returns the names of all kinds of locks.
func subjects() string {
	var names []string
	for _, s := range campaign.Subjects {
		names = append(names, s.Name())
	}
	return strings.Join(names, ", ")
}

func listKinds(stdout io.Writer, cfg *campaign.Config) int {
	kinds, err := campaign.Kinds(cfg)
	if err != nil {
		return 2
	}
	for _, k := range kinds {
		model := "within"
		if !cfg.Within(k) {
			model = "outside"
		}
		fmt.Fprintf(stdout, "%-20s %s the model\n", k.Name, model)
	}
	return 0
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(campaigning(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
