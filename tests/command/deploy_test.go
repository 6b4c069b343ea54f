package command

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The dashboard and the alerts in deploy/ ask for metrics, labels and values that exist, and for all metrics.
func TestDeployAsksForWhatExists(t *testing.T) {
	t.Parallel()
	uses(t)
	all := families{}
	all.addObserved(t)
	all.addRun(t)
	all.addInspected(t)
	asked := map[string]bool{}
	for where, query := range queries(t) {
		e, err := metricsql.Parse(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		names := map[string]bool{}
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			for _, name := range metricsOf(e) {
				names[name] = true
			}
		})
		if len(names) == 0 {
			t.Errorf("%s asks for no metric: %s", where, query)
		}
		labels := map[string]map[string]bool{"job": nil, "instance": nil} // which Prometheus adds
		for name := range names {
			family, of := all.find(name)
			if family == nil {
				t.Errorf("%s asks for %s, which does not exist", where, name)
				continue
			}
			asked[family.GetName()] = true
			maps.Copy(labels, of)
		}
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			for _, wrong := range wrongIn(e, labels) {
				t.Errorf("%s: %s: %s", where, wrong, query)
			}
		})
	}
	for name := range all {
		if !asked[name] {
			t.Errorf("neither the dashboard nor an alert asks for %s", name)
		}
	}
}

// metricsOf returns the names of the metrics that an expression, without its parts, asks for.
func metricsOf(e metricsql.Expr) (names []string) {
	if m, is := e.(*metricsql.MetricExpr); is {
		for _, filters := range m.LabelFilterss {
			for _, f := range filters {
				if f.Label == "__name__" {
					names = append(names, f.Value)
				}
			}
		}
	}
	return names
}

// The functions of PromQL that may be used: the parser knows more, and lets windows be left out.
var (
	overWindows = []string{"increase", "min_over_time", "rate"}
	others      = []string{"histogram_quantile", "time"}
)

// wrongIn says what is no PromQL, or asks for labels or values that do not exist, in an expression without its parts.
func wrongIn(e metricsql.Expr, labels map[string]map[string]bool) (wrong []string) {
	label := func(name string) {
		if _, exists := labels[name]; !exists {
			wrong = append(wrong, "no metric has the label "+name)
		}
	}
	switch e := e.(type) {
	case *metricsql.MetricExpr:
		for _, filters := range e.LabelFilterss {
			for _, f := range filters {
				if f.Label == "__name__" {
					continue
				}
				label(f.Label)
				if values := labels[f.Label]; values != nil && !f.IsRegexp && !values[f.Value] {
					wrong = append(wrong, "the label "+f.Label+" is never "+f.Value)
				}
			}
		}
	case *metricsql.AggrFuncExpr:
		for _, name := range e.Modifier.Args {
			label(name)
		}
	case *metricsql.BinaryOpExpr:
		for _, name := range slices.Concat(e.GroupModifier.Args, e.JoinModifier.Args) {
			label(name)
		}
	case *metricsql.FuncExpr:
		switch {
		case slices.Contains(overWindows, e.Name):
			if r, is := e.Args[len(e.Args)-1].(*metricsql.RollupExpr); !is || r.Window == nil {
				wrong = append(wrong, e.Name+" has no window")
			}
		case !slices.Contains(others, e.Name):
			wrong = append(wrong, e.Name+" is not known to be PromQL")
		}
	}
	return wrong
}

// families are metrics by name.
type families map[string]*dto.MetricFamily

// find returns a metric by the name of one of its series, and the values of its labels.
func (all families) find(name string) (*dto.MetricFamily, map[string]map[string]bool) {
	labels := map[string]map[string]bool{}
	family := all[name]
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if of, is := strings.CutSuffix(name, suffix); is && all[of].GetType() == dto.MetricType_HISTOGRAM {
			if family = all[of]; suffix == "_bucket" {
				labels["le"] = nil
			}
		}
	}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if labels[l.GetName()] == nil {
				labels[l.GetName()] = map[string]bool{}
			}
			labels[l.GetName()][l.GetValue()] = true
		}
	}
	return family, labels
}

// addObserved adds what OpenTelemetry's exporter for Prometheus makes of an observer's metrics.
func (all families) addObserved(t *testing.T) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	o, err := holdfastotel.New(holdfastotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []holdfast.Kind{holdfast.KindMutex, holdfast.KindElection} {
		acquire := holdfast.AcquireEvent{Kind: kind, Mode: holdfast.ModeExclusive, Waited: time.Second}
		ctx := o.AcquireStart(context.Background(), acquire)
		o.AcquireEnd(ctx, acquire)
		o.Renewed(ctx, holdfast.LeaseEvent{Slack: time.Second})
		o.Released(ctx, holdfast.LeaseEvent{Held: time.Second})
	}
	o.ServerLost(holdfast.ServerEvent{Server: "127.0.0.1:6379"})
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range gathered {
		if strings.HasPrefix(family.GetName(), "holdfast_") {
			all[family.GetName()] = family
		}
	}
}

// addRun adds the metrics of holdfast run --metrics-file.
func (all families) addRun(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.prom")
	run := exec.Command("holdfast", "run", "--redis", server.Start(t, server.One(t)).Addr(), "--metrics-file", file, "deploy", "--", "true")
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	all.addText(t, text)
}

// addInspected adds the metrics of the inspector, while somebody leads.
func (all families) addInspected(t *testing.T) {
	t.Helper()
	locks := holdfasttest.New(t)
	err := locks.Election("leader").Run(t.Context(), func(context.Context, *holdfast.Lease) error {
		handler, err := ui.New(inspect.New(locks.Client), nil)
		if err != nil {
			return err
		}
		defer handler.Close()
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/metrics", nil))
		all.addText(t, answer.Body)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addText adds metrics in Prometheus' text format.
func (all families) addText(t *testing.T, text io.Reader) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, parsed)
}

// queries returns all queries of deploy/, by where they are.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(deployed(t, "grafana-dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", `=~"$job"`, `=~".*"`, `=~"$kind"`, `=~".*"`)
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			all["panel "+p.Title+" "+q.RefID] = variables.Replace(q.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if inner, is := strings.CutPrefix(v.Definition, "label_values("); is {
			name, label, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
			all["variable "+v.Name] = "count by (" + label + ") (" + name + ")"
		}
	}
	panels := len(all)

	var alerts struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr         string
				For                 model.Duration
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(deployed(t, "prometheus-alerts.yml"))))
	decoder.KnownFields(true)
	if err := decoder.Decode(&alerts); err != nil {
		t.Fatal(err)
	}
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			where := "alert " + r.Alert
			if all[where] != "" || r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s comes twice, or lacks something", where)
			}
			all[where] = r.Expr
		}
	}
	if panels < 20 || len(all) < panels+8 {
		t.Errorf("only %d queries of the dashboard, %d in all", panels, len(all))
	}
	return all
}

// deployed returns a file of deploy/, in a way that the go command notices: see uses.
func deployed(t *testing.T, name string) []byte {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(here + "/../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
