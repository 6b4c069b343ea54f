package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/clock"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

func TestMain(m *testing.M) {
	// The library's clock that counts suspensions would run while virtual time stands still.
	clock.SetBoot(func() time.Duration { return 0 })
	m.Run()
}

// examined examines a server, with a short watch of its clock.
func examined(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := tryToExamine(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Servers == nil || f.Saw == "" {
			t.Errorf("%+v says too little", f)
		}
		if f.Severity != OK && f.Severity != Unchecked && (f.Consequence == "" || f.Remedy == "") {
			t.Errorf("%+v lacks its consequence or remedy", f)
		}
	}
	return r
}

func tryToExamine(t *testing.T, cfg Config) (*Report, error) {
	t.Helper()
	t.Cleanup(func() { _ = cfg.Client.Close() })
	if cfg.TTL == 0 {
		cfg.TTL = time.Hour // no latency on a busy machine is too long for that
	}
	cfg.Watch = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Examine(ctx, []Config{cfg})
	if r != nil {
		text, err := json.Marshal(r)
		if err != nil {
			t.Error(err)
		}
		printed := r.Text(false)
		if all := string(text) + printed; strings.Contains(all, "canary") {
			t.Errorf("the report shows the password: %s", all)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the report:\n%s", printed)
			}
		})
	}
	return r, err
}

// serverAt makes the configuration of one server.
func serverAt(addr string, change ...func(*redis.Options)) Config {
	o := &redis.Options{Addr: addr}
	for _, f := range change {
		f(o)
	}
	return Config{Server: &connect.Server{Client: redis.NewClient(o), Addr: addr, Mode: connect.Single}}
}

// expect looks for a finding by its check, its severity and a part of what was seen.
func expect(t *testing.T, r *Report, id string, severity Severity, saw string) Finding {
	t.Helper()
	var all []string
	for _, f := range r.Findings {
		if f.ID != id {
			continue
		}
		if f.Severity == severity && strings.Contains(f.Saw, saw) {
			return f
		}
		all = append(all, fmt.Sprintf("%s: %s", f.Severity, f.Saw))
	}
	t.Errorf("%s: found %q, want %s: %s", id, all, severity, saw)
	return Finding{}
}
