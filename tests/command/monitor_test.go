package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// prometheusFolder returns the folder of prometheus and promtool.
func prometheusFolder() (string, error) {
	if dir := os.Getenv("HOLDFAST_TEST_PROMETHEUS"); dir != "" {
		return dir, nil
	}
	if path, err := exec.LookPath("prometheus"); err == nil {
		if _, err := exec.LookPath("promtool"); err == nil {
			return filepath.Dir(path), nil
		}
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "holdfast-prometheus", "usr", "bin") // the same as in tests/ensure-prometheus.sh
		if _, err := os.Stat(filepath.Join(dir, "promtool")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("there is none: tests/ensure-prometheus.sh unpacks one, or name its folder in HOLDFAST_TEST_PROMETHEUS")
}

type monitor struct {
	t       *testing.T
	url     string
	missing []string // what has no numbers yet
}

// startPrometheus starts one that scrapes each target every second, as a job of its name.
func startPrometheus(t *testing.T, bin, rules string, targets map[string]http.Handler) *monitor {
	t.Helper()
	dir := t.TempDir()
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [" + strconv.Quote(rules) + "]\nscrape_configs:\n"
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		mux := http.NewServeMux()
		mux.Handle("/metrics", targets[name])
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		config += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: [%q]}]}\n", name, strings.TrimPrefix(s.URL, "http://"))
	}
	file := filepath.Join(dir, "prometheus.yml")
	expect.OK(t, os.WriteFile(file, []byte(config), 0o600))
	port := expect.Of(server.ReservePort()).OK(t)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log := expect.Of(os.Create(filepath.Join(dir, "log"))).OK(t)
	cmd := exec.Command(filepath.Join(bin, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = log, log
	prometheus := expect.Of(child.Run(cmd)).OK(t)
	t.Cleanup(func() {
		prometheus.Kill()
		_ = log.Close()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("prometheus: %s", said[max(0, len(said)-4000):])
		}
	})
	return &monitor{t: t, url: "http://" + addr}
}

// eventually is like backend.Eventually, asks less often, and says what is missing.
func (p *monitor) eventually(what string, f func() bool) {
	p.t.Helper()
	for began := time.Now(); !f(); time.Sleep(time.Second) {
		if time.Since(began) > 3*time.Minute { // for a test that hangs
			p.t.Fatalf("not: %s\n%s", what, strings.Join(p.missing, "\n"))
		}
	}
}

// expect notes a query that fails, or that has no number though it must.
func (p *monitor) expect(path, where, query string, params url.Values, must bool) {
	n, err := p.numbers(path, query, params)
	if err != nil || must && n == 0 {
		p.missing = append(p.missing, fmt.Sprintf("%s: %d numbers, %v: %s", where, n, err, query))
	}
}

// numbers counts the values in the result of a query, except NaN.
func (p *monitor) numbers(path, query string, params url.Values) (n int, err error) {
	text, err := p.ask(path, query, params)
	if err != nil {
		return 0, err
	}
	var data struct {
		Result []struct {
			Value  []any
			Values [][]any
		}
	}
	if err := json.Unmarshal(text, &data); err != nil {
		return 0, err
	}
	for _, series := range data.Result {
		if series.Value != nil {
			series.Values = append(series.Values, series.Value)
		}
		for _, v := range series.Values {
			number, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err == nil && !math.IsNaN(number) {
				n++
			}
		}
	}
	return n, nil
}

// ask returns the data that answers a query.
func (p *monitor) ask(path, query string, params url.Values) (json.RawMessage, error) {
	if params == nil {
		params = url.Values{}
	}
	params.Set("query", query)
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", p.url+"/api/v1/"+path+"?"+params.Encode(), nil)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data, nil
}
