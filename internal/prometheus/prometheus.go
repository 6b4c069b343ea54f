// Package prometheus writes metrics in Prometheus' text format, version 0.0.4: for files that node_exporter reads, and for pages
// that Prometheus reads.
package prometheus

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// ContentType is the media type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Metric is a metric with all of its samples.
type Metric struct {
	Name    string // in base units; that of a counter, and of no other, ends in _total
	Help    string
	Type    Type
	Samples []Sample // if there are none, the metric is not written
}

// Type says what the values of a metric are.
type Type string

// The types.
const (
	Counter Type = "counter"
	Gauge   Type = "gauge"
)

// Sample is one value of a metric.
type Sample struct {
	Labels []Label
	Value  float64
}

// Label tells the samples of a metric apart. Bytes of its value that are not UTF-8 are written as U+FFFD.
type Label struct{ Name, Value string }

// Write writes metrics, in their order. If they break a rule of the format, or of promtool check metrics, it writes nothing and
// returns an error that says so.
func Write(w io.Writer, all ...Metric) error {
	var text strings.Builder
	names := map[string]bool{}
	for _, m := range all {
		if names[m.Name] {
			return fmt.Errorf("metric %q comes twice", m.Name)
		}
		names[m.Name] = true
		if err := m.write(&text); err != nil {
			return fmt.Errorf("metric %q: %w", m.Name, err)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

var helpEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

func (m Metric) write(to *strings.Builder) error {
	if err := m.check(); err != nil || len(m.Samples) == 0 {
		return err
	}
	fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", m.Name, helpEscapes.Replace(m.Help), m.Name, m.Type)
	written := map[string]bool{}
	for _, s := range m.Samples {
		if err := checkLabels(s.Labels); err != nil {
			return err
		}
		series := series(m.Name, s.Labels)
		if written[series] {
			return fmt.Errorf("%s comes twice", series)
		}
		written[series] = true
		fmt.Fprintf(to, "%s %s\n", series, value(s.Value))
	}
	return nil
}

// word is what names of metrics and labels are.
var word = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (m Metric) check() error {
	switch {
	case !word.MatchString(m.Name):
		return fmt.Errorf("the name is invalid")
	case m.Help == "":
		return fmt.Errorf("the help is missing")
	case m.Type != Counter && m.Type != Gauge:
		return fmt.Errorf("the type is %q", m.Type)
	case strings.HasSuffix(m.Name, "_total") != (m.Type == Counter):
		return fmt.Errorf("counters, and no others, end in _total")
	}
	return nil
}

func checkLabels(labels []Label) error {
	names := map[string]bool{}
	for _, l := range labels {
		switch {
		case !word.MatchString(l.Name), strings.HasPrefix(l.Name, "__"):
			return fmt.Errorf("the label %q is invalid", l.Name)
		case names[l.Name]:
			return fmt.Errorf("the label %q comes twice", l.Name)
		}
		names[l.Name] = true
	}
	return nil
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
