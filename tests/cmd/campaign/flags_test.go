package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/campaign"
)

func TestList(t *testing.T) {
	var out, errs bytes.Buffer
	if code := campaigning(t.Context(), []string{"-list"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if n := strings.Count(out.String(), "within the model"); n < 25 {
		t.Errorf("%d kinds are within the model:\n%s", n, out.String())
	}
	if !strings.Contains(out.String(), "flushall") {
		t.Errorf("a kind is missing:\n%s", out.String())
	}
}

func TestListOfAQuorum(t *testing.T) {
	var out, errs bytes.Buffer
	if code := campaigning(t.Context(), []string{"-list", "-subject", "quorum"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if text := out.String(); strings.Contains(text, "deaf-subscriptions") || strings.Count(text, "outside the model") != 3 {
		t.Errorf("of a quorum, which is Strict and does not wait for notifications:\n%s", text)
	}
}

func TestWrongUse(t *testing.T) {
	for _, args := range []string{"-mode odd", "-kinds no-such-kind", "-servers none-such", "-for soon", "-subject odd", "-no-such-flag"} {
		var out, errs bytes.Buffer
		if code := campaigning(t.Context(), strings.Fields(args), &out, &errs); code != 2 || errs.Len() == 0 || out.Len() != 0 {
			t.Errorf("%s: exit code %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

// It plays a few histories, and replays one of them.
func TestCampaigning(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	dir := filepath.Join(t.TempDir(), "kept")
	for _, args := range []string{
		"-histories 2 -lanes 2 -kinds none -dir " + dir,
		"-replay 17 -kinds script-flush,fences-deleted",
		"-json -histories 1 -kinds script-flush",
	} {
		t.Run(args[:strings.Index(args, " ")], func(t *testing.T) {
			t.Parallel() // it mostly waits
			var out, errs bytes.Buffer
			if code := campaigning(t.Context(), strings.Fields(args), &out, &errs); code != 0 {
				t.Errorf("%s: exit code %d: %s", args, code, errs.String())
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			var report campaign.Report
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil || report.Histories == 0 || report.Violations != 0 {
				t.Errorf("%s: %v: %s", args, err, out.String())
			}
			if bare := strings.HasPrefix(args, "-json"); bare != (len(lines) == 1) || bare == strings.Contains(out.String(), "violations  ") {
				t.Errorf("%s: %s", args, out.String())
			}
		})
	}
}
