package prometheus

import (
	"math"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	jobs := Metric{Name: "jobs", Help: "Jobs of C:\\\nand D:", Type: Gauge, Samples: []Sample{
		{[]Label{{"name", "a \"b\"\\\n\xff"}, {"outcome", "ran"}}, 3},
		{[]Label{{"name", ""}}, 1e15},
	}}
	var got strings.Builder
	err := Write(&got, jobs, Metric{Name: "none", Help: "Nothing.", Type: Gauge},
		Metric{Name: "wait_seconds", Help: "Waits.", Type: Gauge, Samples: []Sample{{Value: 0.25}, {[]Label{{"x", "1"}}, math.Inf(1)}, {[]Label{{"x", "2"}}, math.NaN()}, {[]Label{{"x", "3"}}, 1e300}}})
	want := `# HELP jobs Jobs of C:\\\nand D:
# TYPE jobs gauge
jobs{name="a \"b\"\\\n` + "\uFFFD" + `",outcome="ran"} 3
jobs{name=""} 1000000000000000
# HELP wait_seconds Waits.
# TYPE wait_seconds gauge
wait_seconds 0.25
wait_seconds{x="1"} +Inf
wait_seconds{x="2"} NaN
wait_seconds{x="3"} 1e+300
`
	if err != nil || got.String() != want {
		t.Errorf("%v, %s; want %s", err, got.String(), want)
	}
	for _, s := range jobs.Samples {
		if v, found := Read(got.String(), jobs.Name, s.Labels...); !found || v != s.Value {
			t.Errorf("read %v, %v of %v", v, found, s)
		}
	}
	if v, found := Read(got.String(), "wait_seconds"); !found || v != 0.25 {
		t.Errorf("read %v, %v", v, found)
	}
	if v, found := Read(got.String(), "wait"); found {
		t.Errorf("read %v of a metric that does not exist", v)
	}
}
