package hf1

import (
	"strconv"
	"strings"
	"testing"
)

// fields names, for each script and the first word of its reply, the fields that follow NOW. One that ends in
// "..." is the rest of the line. The replies of share_acquire, share_renew and share_release are those of the mutex.
var fields = map[string]map[string]string{
	"acquire": {
		"granted": "PTTL FENCE BLOCK", "held": "PTTL WAITERS VALUE...", "queued": "PTTL SCORE RANK RECEIVERS WHOSE",
		"deep": "HOLDS", "gone": "", "late": "", "quarantined": "REST",
	},
	"renew":              {"renewed": "PTTL FENCE BLOCK", "gone": "", "absent": "", "quarantined": "REST"},
	"reassert":           {"renewed": "PTTL FENCE BLOCK", "gone": "", "late": ""},
	"release":            {"released": "", "left": "", "gone": ""},
	"drop":               {"released": "", "kept": ""},
	"holder":             {"held": "PTTL WAITERS VALUE...", "free": "WAITERS"},
	"init":               {"ready": "", "quarantined": "REST", "new": "", "known": ""},
	"whatis":             {"holds": "WHAT"},
	"announce":           {"told": "RECEIVERS"},
	"share_weigh":        {"weighed": "PTTL FENCE", "held": "", "gone": "", "quarantined": "REST"},
	"share_resize":       {"resized": "LIMIT USED"},
	"share_disown":       {"released": "LEFT", "free": "", "held": "PTTL WAITERS VALUE...", "late": ""},
	"share_holders":      {"holders": "WAITERS USED LIMIT CURSOR"},
	"multi_acquire":      {"granted": "PTTL FENCES...", "held": "I PTTL WAITERS VALUE...", "queued": "", "late": "", "quarantined": "REST"},
	"batch_acquire":      {"taken": "FENCE LEFT..."},
	"batch_release":      {"freed": "LEFT..."},
	"batch_renew":        {"kept": "LEFT..."},
	"once_look":          {"done": "COMPLETED FENCE TRY COUNTS INFO...", "none": "TRIES"},
	"once_begin":         {"begun": "TRY", "done": "COMPLETED FENCE TRY COUNTS INFO...", "used": "", "spent": "TRIES", "gone": ""},
	"once_complete":      {"completed": "COMPLETED TRY", "gone": ""},
	"node_acquire":       {"granted": "PTTL FENCE", "held": "PTTL AHEAD VALUE...", "wanted": "AHEAD", "gone": "", "late": "", "quarantined": "REST", "behind": "STANDS"},
	"node_batch_acquire": {"taken": "FENCE LEFT...", "quarantined": "REST", "behind": "STANDS"},
	"node_fence":         {"fenced": "PTTL", "gone": "", "quarantined": "REST", "behind": "STANDS"},
	"node_counter":       {"counter": "COUNTER", "quarantined": "REST", "behind": "COUNTER STANDS"},
	"node_raise":         {"raised": "COUNTER", "quarantined": "REST", "behind": "STANDS"},
	"latch_count":        {"counted": "COUNT", "taken": "COUNT", "late": ""},
	"latch_look":         {"count": "SINCE COUNT MISSING PTTL", "opened": "MISSING", "reset": ""},
	"latch_reset":        {"reset": "", "late": ""},
	"barrier_await":      {"waiting": "PTTL PHASE ARRIVED", "tripped": "PHASE", "broken": "PHASE PRESENT HOW INFO...", "gone": "", "stale": ""},
	"barrier_withdraw":   {"withdrawn": "", "stale": "", "gone": ""},
}

// timeless are the scripts whose replies have no NOW.
const timeless = "batch_release"

// Reply is a script's reply.
type Reply struct {
	Word   string
	Now    int64             // server time, µs
	Fields map[string]string // by the names of docs/PROTOCOL.md; of "error", MESSAGE
	Lines  []string          // that follow the first

	tb   testing.TB
	what string // the request, for errors
	text string
}

// parse reads a reply, which has to have the fields of its word, no more and no less.
func parse(tb testing.TB, script, what, text string) Reply {
	tb.Helper()
	first, more, _ := strings.Cut(text, "\n")
	r := Reply{Fields: map[string]string{}, tb: tb, what: what, text: text}
	if more != "" {
		r.Lines = strings.Split(more, "\n")
	}
	word, rest, _ := strings.Cut(first, " ")
	r.Word = word
	if word == "error" {
		r.Fields["MESSAGE"] = rest
		return r
	}
	names, known := fields[script][word]
	if family, ok := strings.CutPrefix(script, "share_"); !known && ok {
		names, known = fields[family][word]
	}
	if !known {
		tb.Fatalf("%s: %q is no reply of it", what, text)
	}
	if script != timeless {
		var now string
		now, rest, _ = strings.Cut(rest, " ")
		r.Now = r.number("NOW", now)
	}
	for name := range strings.FieldsSeq(names) {
		all, isRest := strings.CutSuffix(name, "...")
		if isRest {
			r.Fields[all], rest = rest, ""
			continue
		}
		r.Fields[name], rest, _ = strings.Cut(rest, " ")
	}
	if rest != "" {
		tb.Fatalf("%s: the reply %q has more than %q", what, text, names)
	}
	return r
}

// Want fails the test if the reply's word is another.
func (r Reply) Want(word string) Reply {
	r.tb.Helper()
	if r.Word != word {
		r.tb.Fatalf("%s: the reply is %q; want %q", r.what, r.text, word)
	}
	return r
}

// WantError fails the test if the reply is not an error with that first word.
func (r Reply) WantError(word string) {
	r.tb.Helper()
	if r.Want("error"); !strings.HasPrefix(r.Fields["MESSAGE"], word+" ") {
		r.tb.Fatalf("%s: the reply is %q; want the error %s", r.what, r.text, word)
	}
}

// Text returns a field.
func (r Reply) Text(field string) string {
	r.tb.Helper()
	text, ok := r.Fields[field]
	if !ok {
		r.tb.Fatalf("%s: the reply %q has no %s", r.what, r.text, field)
	}
	return text
}

// Int returns a field that is a number.
func (r Reply) Int(field string) int64 {
	r.tb.Helper()
	return r.number(field, r.Text(field))
}

// Ints returns the numbers of a field that has several.
func (r Reply) Ints(field string) (numbers []int64) {
	r.tb.Helper()
	for text := range strings.FieldsSeq(r.Text(field)) {
		numbers = append(numbers, r.number(field, text))
	}
	return numbers
}

// Value returns the VALUE of a reply.
func (r Reply) Value() Value {
	r.tb.Helper()
	return parseValue(r.tb, r.Text("VALUE"))
}

// Info returns the INFO of a reply.
func (r Reply) Info() Info {
	r.tb.Helper()
	return parseInfo(r.tb, r.Text("INFO"))
}

// Result returns the lines after the first.
func (r Reply) Result() string { return strings.Join(r.Lines, "\n") }

func (r Reply) number(field, text string) int64 {
	r.tb.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.tb.Fatalf("%s: in the reply %q, %s is %q", r.what, r.text, field, text)
	}
	return n
}
