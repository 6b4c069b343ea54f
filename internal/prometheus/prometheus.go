// Package prometheus writes metrics in Prometheus' text format, version 0.0.4: for files that node_exporter reads, and for pages
// that Prometheus reads.
package prometheus

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ContentType is the media type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Metric is a metric with all of its samples, no two of which have the same labels.
type Metric struct {
	Name    string // in base units
	Help    string
	Type    Type
	Samples []Sample // if there are none, the metric is not written
}

// Type says what the values of a metric are.
type Type string

// Gauge is a value that may go up and down.
const Gauge Type = "gauge"

// Sample is one value of a metric.
type Sample struct {
	Labels []Label
	Value  float64
}

// Label tells the samples of a metric apart. Bytes of its value that are not UTF-8 are written as U+FFFD.
type Label struct{ Name, Value string }

var helpEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// Write writes metrics, in their order.
func Write(w io.Writer, all ...Metric) error {
	var text strings.Builder
	for _, m := range all {
		if len(m.Samples) > 0 {
			fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", m.Name, helpEscapes.Replace(m.Help), m.Type)
		}
		for _, s := range m.Samples {
			fmt.Fprintf(&text, "%s %s\n", series(m.Name, s.Labels), value(s.Value))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// series names a sample, as a line of the format begins.
func series(name string, labels []Label) string {
	if len(labels) == 0 {
		return name
	}
	var parts []string
	for _, l := range labels {
		parts = append(parts, l.Name+`="`+labelEscapes.Replace(strings.ToValidUTF8(l.Value, "\uFFFD"))+`"`)
	}
	return name + "{" + strings.Join(parts, ",") + "}"
}

// value writes whole numbers, such as times, in full, and others as short as they can be.
func value(v float64) string {
	if v == float64(int64(v)) && v < 1<<53 && v > -1<<53 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64) // also NaN, +Inf and -Inf, as the format has them
}

// Read returns the value of a sample in a text that Write has written; false if it is not there.
func Read(text, name string, labels ...Label) (float64, bool) {
	begins := series(name, labels) + " "
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, begins); is {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v, err == nil
		}
	}
	return 0, false
}
