package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

func TestList(t *testing.T) {
	// A quorum is Strict, and does not wait for notifications.
	for args, outside := range map[string]int{"-list": 6, "-list -subject quorum": 3} {
		var out, errs bytes.Buffer
		code := campaigning(t.Context(), strings.Fields(args), &out, &errs)
		text := out.String()
		within := strings.Count(text, "within the model")
		if code != 0 || !strings.Contains(text, "flushall") || within < 25 || strings.Count(text, "outside the model") != outside {
			t.Errorf("%s: exit code %d: %s%s", args, code, text, errs.String())
		}
		if strings.Contains(text, "deaf-subscriptions") != (args == "-list") {
			t.Errorf("%s: %s", args, text)
		}
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
	soak.Nightly(t)
	for _, args := range []string{
		"-histories 2 -kinds none -dir " + t.TempDir(),
		"-replay 17 -kinds script-flush,fences-deleted -histories 1",
	} {
		t.Run(args[:strings.Index(args, " ")], func(t *testing.T) {
			t.Parallel() // it mostly waits
			var out, errs bytes.Buffer
			code := campaigning(t.Context(), strings.Fields(args), &out, &errs)
			text := strings.Join(strings.Fields(out.String()), " ")
			if code != 0 || !strings.Contains(text, " violations 0 ") || strings.Contains(text, " histories 0,") {
				t.Errorf("%s: exit code %d: %s%s", args, code, out.String(), errs.String())
			}
		})
	}
}
