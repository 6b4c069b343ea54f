package hf1

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Info describes a holder or a waiter to people.
type Info struct {
	Owner string            `json:"o"`
	Host  string            `json:"h,omitempty"`
	PID   int               `json:"p,omitempty"`
	Meta  map[string]string `json:"m,omitempty"`
}

func (i Info) String() string {
	text, err := json.Marshal(i)
	if err != nil {
		panic("hf1: " + err.Error())
	}
	return string(text)
}

// Value is a lock's value.
type Value struct {
	Token   string
	Fence   int64
	Granted int64 // server time, ms
	Chain   string
	Info    Info
	Marked  bool
}

const token = `[A-Za-z0-9_-]{22}`

var (
	valueForm  = regexp.MustCompile(`^hf1:(` + token + `):(\d+):(\d+):(0|\d+@\d+|\d+@\d+@[0-9a-f]{8}):(\{.*\})(\+?)$`)
	holdForm   = regexp.MustCompile(`^(\d+):(\d+):(\d+):(\d+):(\{.*\})$`)
	memberForm = regexp.MustCompile(`^(` + token + `)\n(\d+)\n([^\n]*)\n(?:(\d+)\n)?(?:([^\n{][^\n]*)\n)?(\{[^\n]*\})$`)
	tokenForm  = regexp.MustCompile(`^` + token + `$`)
	noteForm   = regexp.MustCompile(`^(x:` + token + `(:nothing)?|d:` + token + `|t:\d{28}|gap)$`)
	awaitForm  = regexp.MustCompile(`^\d+ \d+ (in|out)$`)
	brokenForm = regexp.MustCompile(`^(left|died) \{.*\}$`)
)

func parseValue(tb testing.TB, text string) Value {
	tb.Helper()
	m := valueForm.FindStringSubmatch(text)
	if m == nil {
		tb.Fatalf("%q is no value of a lock", text)
	}
	return Value{m[1], number(tb, m[2]), number(tb, m[3]), m[4], parseInfo(tb, m[5]), m[6] != ""}
}

func parseInfo(tb testing.TB, text string) (i Info) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &i); err != nil || i.Owner == "" || len(text) > 1024 {
		tb.Fatalf("%q is no INFO: %v", text, err)
	}
	return i
}

// Hold is a hold of a lock as it is stored: of a mutex, the one.
type Hold struct {
	Value
	Weight int64 // 0 for a mutex
	Expiry int64 // server time, µs; 0 for a mutex
}

// Stored reads the holds in the lock's key, and fails the test if there is anything in it that docs/PROTOCOL.md
// does not say.
func (l *Lock) Stored() []Hold {
	tb := l.c.tb
	tb.Helper()
	switch {
	case l.kind != "":
		return l.storedShares()
	case l.isRedisson():
		fields := l.c.all(l.Key())
		if len(fields) == 0 {
			return nil
		}
		v := parseValue(tb, fields["holdfast"])
		if len(fields) != 2 || fields[v.Token+":1"] != "1" {
			tb.Fatalf("%s is %q", l.Key(), fields)
		}
		return []Hold{{Value: v}}
	}
	text, err := l.c.rdb.Get(tb.Context(), l.Key()).Result()
	if err == redis.Nil {
		return nil
	} else if err != nil {
		tb.Fatal(err)
	}
	return []Hold{{Value: parseValue(tb, text)}}
}

// numbers are the fields of a hash that are whole numbers, of locks that several may hold.
var numbers = []string{"limit", "used", "holds", "next", "fence", "fixed", "count", "missing", "since", "opened", "opened_missing", "phase", "arrived", "tripped"}

func (l *Lock) storedShares() (holds []Hold) {
	tb := l.c.tb
	tb.Helper()
	hash := l.c.all(l.Key())
	if len(hash) == 0 {
		return nil
	}
	if hash["kind"] != l.kind {
		tb.Fatalf("%s is of kind %q; want %q", l.Key(), hash["kind"], l.kind)
	}
	expiries, err := l.c.rdb.ZRangeWithScores(tb.Context(), l.index(), 0, -1).Result()
	if err != nil {
		tb.Fatal(err)
	}
	used := int64(0)
	for _, field := range slices.Sorted(maps.Keys(hash)) {
		value := hash[field]
		switch {
		case tokenForm.MatchString(field):
			m := holdForm.FindStringSubmatch(value)
			if m == nil {
				tb.Fatalf("%s has the hold %q", l.Key(), value)
			}
			h := Hold{
				Value:  Value{Token: field, Fence: number(tb, m[3]), Granted: number(tb, m[4]), Chain: "0", Info: parseInfo(tb, m[5])},
				Weight: number(tb, m[2]), Expiry: number(tb, m[1]),
			}
			if !slices.Contains(expiries, redis.Z{Score: float64(h.Expiry), Member: field}) {
				tb.Fatalf("%s has no %d of %s", l.index(), h.Expiry, l.Key())
			}
			used += h.Weight
			holds = append(holds, h)
		case slices.Contains(numbers, field):
			number(tb, value)
		case field == "kind", field == "last":
		case field == "owner" && strings.HasPrefix(value, "="):
		case field == "broken" && brokenForm.MatchString(value):
		case strings.HasPrefix(field, "@") && tokenForm.MatchString(field[1:]) && awaitForm.MatchString(value):
		default:
			tb.Fatalf("%s has the field %q: %q", l.Key(), field, value)
		}
	}
	if used != number(tb, hash["used"]) || strconv.Itoa(len(holds)) != hash["holds"] {
		tb.Fatalf("%s counts %s holds, and %s used; it has %d, and %d", l.Key(), hash["holds"], hash["used"], len(holds), used)
	}
	return holds
}

// Waiter is an entry of a lock's queue.
type Waiter struct {
	Token   string
	Claim   int64 // ms
	Channel string
	Weight  int64  // 0 for a mutex
	Owner   string // of an owner's lock
	Info    Info
	Score   int64
}

// Waiters reads the lock's queue, and fails the test if it has anything but waiters, tombstones, tickets, notes of
// requests that were carried out, and a gap, as docs/PROTOCOL.md has them.
func (l *Lock) Waiters() (waiters []Waiter) {
	tb := l.c.tb
	tb.Helper()
	entries, err := l.c.rdb.ZRangeWithScores(tb.Context(), l.queue(), 0, -1).Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		member := e.Member.(string)
		if e.Score < 0 {
			if !noteForm.MatchString(member) {
				tb.Fatalf("%s has %q with a negative score", l.queue(), member)
			}
			continue
		}
		m := memberForm.FindStringSubmatch(member)
		if m == nil || !strings.HasPrefix(m[3], l.channel("")) || !tokenForm.MatchString(m[3][len(l.channel("")):]) || (m[4] != "") != (l.kind != "") || (m[5] != "") != (l.kind == "own") {
			tb.Fatalf("%s has the entry %q", l.queue(), member)
		}
		w := Waiter{Token: m[1], Claim: number(tb, m[2]), Channel: m[3], Owner: m[5], Info: parseInfo(tb, m[6]), Score: int64(e.Score)}
		if m[4] != "" {
			w.Weight = number(tb, m[4])
		}
		waiters = append(waiters, w)
	}
	return waiters
}

func (c *Client) all(key string) map[string]string {
	c.tb.Helper()
	fields, err := c.rdb.HGetAll(c.tb.Context(), key).Result()
	if err != nil {
		c.tb.Fatal(err)
	}
	return fields
}

func number(tb testing.TB, text string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatalf("%q is no number", text)
	}
	return n
}
