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
	"regexp"
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
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The dashboard and the alerts in deploy/ ask for metrics, labels and values that exist, and for all metrics. A Prometheus judges their
// PromQL in TestDashboardShowsALoad.
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
		var names []string
		var labels [][2]string // and their values, "" for any
		anyOf := func(names []string) {
			for _, name := range names {
				labels = append(labels, [2]string{name})
			}
		}
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			switch e := e.(type) {
			case *metricsql.MetricExpr:
				for _, f := range slices.Concat(e.LabelFilterss...) {
					switch {
					case f.Label == "__name__":
						names = append(names, f.Value)
					case f.IsRegexp:
						labels = append(labels, [2]string{f.Label})
					default:
						labels = append(labels, [2]string{f.Label, f.Value})
					}
				}
			case *metricsql.AggrFuncExpr:
				anyOf(e.Modifier.Args)
			case *metricsql.BinaryOpExpr:
				anyOf(slices.Concat(e.GroupModifier.Args, e.JoinModifier.Args))
			}
		})
		exist := map[string]map[string]bool{"job": nil, "instance": nil} // which Prometheus adds
		for _, name := range names {
			family, of := all.find(name)
			if family == nil {
				t.Errorf("%s asks for %s, which does not exist", where, name)
				continue
			}
			asked[family.GetName()] = true
			maps.Copy(exist, of)
		}
		for _, label := range labels {
			if values, exists := exist[label[0]]; !exists || label[1] != "" && values != nil && !values[label[1]] {
				t.Errorf("%s: no metric has the label %q: %s", where, label, query)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s asks for no metric: %s", where, query)
		}
	}
	for name := range all {
		if !asked[name] {
			t.Errorf("neither the dashboard nor an alert asks for %s", name)
		}
	}
}

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

// observed returns an observer, and what OpenTelemetry's exporter for Prometheus makes of its metrics.
func observed(t *testing.T) (*holdfast.Observer, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader := expect.Of(exporter.New(exporter.WithRegisterer(registry))).OK(t)
	o := expect.Of(holdfastotel.New(holdfastotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))).OK(t)
	return o, registry
}

func (all families) addObserved(t *testing.T) {
	t.Helper()
	o, registry := observed(t)
	for _, kind := range []holdfast.Kind{holdfast.KindMutex, holdfast.KindElection} {
		acquire := holdfast.AcquireEvent{Kind: kind, Mode: holdfast.ModeExclusive, Waited: time.Second}
		ctx := o.AcquireStart(context.Background(), acquire)
		o.AcquireEnd(ctx, acquire)
		o.Renewed(ctx, holdfast.LeaseEvent{Slack: time.Second})
		o.Released(ctx, holdfast.LeaseEvent{Held: time.Second})
	}
	o.ServerLost(holdfast.ServerEvent{Server: "127.0.0.1:6379"})
	gathered := expect.Of(registry.Gather()).OK(t)
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
	env := []string{"HOLDFAST_REDIS=redis://" + server.Start(t, server.One(t)).Addr()}
	if code, _, said := invoke(t, env, "run", "--metrics-file", file, "deploy", "--", "true"); code != 0 {
		t.Fatal(said)
	}
	text := expect.Of(os.Open(file)).OK(t)
	defer text.Close()
	all.addText(t, text)
}

// addInspected adds the metrics of the inspector, while somebody leads.
func (all families) addInspected(t *testing.T) {
	t.Helper()
	locks := holdfasttest.New(t)
	err := election.New(locks.Mutex("leader")).Run(t.Context(), func(context.Context, *holdfast.Lease) error {
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
	expect.OK(t, err)
}

func (all families) addText(t *testing.T, text io.Reader) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed := expect.Of(parser.TextToMetricFamilies(text)).OK(t)
	maps.Copy(all, parsed)
}

// A dashboardQuery is a query as Grafana has it, with variables.
type dashboardQuery struct {
	Expr    string
	Instant bool
	Format  string
	RefID   string
}

// dashboard returns the queries of the dashboard's panels, and of its variables, by where they are.
func dashboard(t *testing.T) (panels map[string]dashboardQuery, variables map[string]string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []dashboardQuery
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	expect.OK(t, json.Unmarshal(deployed(t, "grafana-dashboard.json"), &board))
	panels, variables = map[string]dashboardQuery{}, map[string]string{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			panels["panel "+p.Title+" "+q.RefID] = q
		}
	}
	expect.AtLeast(t, "queries", len(panels), 20)
	for _, v := range board.Templating.List {
		if inner, is := strings.CutPrefix(v.Definition, "label_values("); is {
			name, label, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
			variables["variable "+v.Name] = "count by (" + label + ") (" + name + ")"
		}
	}
	return panels, variables
}

// queries returns all queries of deploy/, by where they are.
func queries(t *testing.T) map[string]string {
	t.Helper()
	panels, all := dashboard(t)
	variables := strings.NewReplacer("$__rate_interval", "5m", `=~"$job"`, `=~".*"`, `=~"$kind"`, `=~".*"`)
	for where, q := range panels {
		all[where] = variables.Replace(q.Expr)
	}
	before := len(all)

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
	expect.OK(t, decoder.Decode(&alerts))
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			where := "alert " + r.Alert
			if all[where] != "" || r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s comes twice, or lacks something", where)
			}
			all[where] = r.Expr
		}
	}
	expect.AtLeast(t, "alerts, and what was there before", len(all), before+8)
	return all
}

// deployed returns a file of deploy/, in a way that the go command notices: see uses.
func deployed(t *testing.T, name string) []byte {
	t.Helper()
	here := expect.Of(os.Getwd()).OK(t)
	return expect.Of(os.ReadFile(here + "/../../deploy/" + name)).OK(t)
}

// stamp matches what the linker is told to set.
var stamp = regexp.MustCompile(`-X (\S+?)=`)

// What builds releases stamps the version and the commit into variables that exist: the linker passes over others in silence.
func TestReleasesAreStamped(t *testing.T) {
	long(t)
	uses(t)
	var flags []string
	for _, file := range []string{"../.goreleaser.yaml", "Dockerfile"} {
		var found []string
		for _, m := range stamp.FindAllStringSubmatch(string(deployed(t, file)), -1) {
			value := map[bool]string{true: "1.4.2", false: "fedcba987654"}[strings.HasSuffix(m[1], "Version")]
			found = append(found, "-X "+m[1]+"="+value)
		}
		if len(found) != 2 || flags != nil && !slices.Equal(found, flags) {
			t.Errorf("%s stamps %q, and another file %q", file, found, flags)
		}
		flags = found
	}
	program := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", strings.Join(flags, " "), "-o", program, ".")
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	said, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
	var got struct{ Version, Commit string }
	if json.Unmarshal(said, &got) != nil || err != nil || got.Version != "1.4.2" || got.Commit != "fedcba987654" {
		t.Errorf("%s, %v", said, err)
	}
}
