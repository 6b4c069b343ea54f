package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestValueHasWhatItsInfoSays(t *testing.T) {
	info := Info{Owner: "o:1", Host: "h", PID: 7, Meta: map[string]string{"k": "a:b\n+", "": "é"}}
	text, err := info.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "\n") {
		t.Errorf("more than one line: %q", text)
	}
	for _, marked := range []string{"", "+"} {
		v, ok := ParseValue("hf1:token:42:1700000000000:3@1700000000000:" + text + marked)
		want := Value{Token: "token", Fence: 42, Granted: 1700000000000, Info: info}
		if !ok || !reflect.DeepEqual(v, want) {
			t.Errorf("marked %q: %+v, %v; want %+v", marked, v, ok, want)
		}
	}
}

func TestInfoIsBounded(t *testing.T) {
	fits := Info{Owner: strings.Repeat("x", maxInfo-len(`{"o":""}`))}
	if text, err := fits.Encode(); err != nil || len(text) != maxInfo {
		t.Errorf("%d bytes: %v", len(text), err)
	}
	fits.Owner += "x"
	if _, err := fits.Encode(); err == nil {
		t.Error("one byte too many is accepted")
	}
}

func TestValuesOfOthersAreNotOurs(t *testing.T) {
	for _, s := range []string{
		"", "+", "theirs", "hf1:", "hf1:a:1:2:0", "hf2:a:1:2:0:{}", "HF1:a:1:2:0:{}", "xhf1:a:1:2:0:{}",
		"hf1:a:1:-1:0:{}", "hf1:a:1:9000000000001:0:{}", "hf1:a:1:9223372036854775807:0:{}", "hf1:a:x:2:0:{}", "hf1:a:-1:2:0:{}", "hf1:a:1:x:0:{}", "hf1:a:1::0:{}", "hf1:a:18446744073709551616:2:0:{}",
	} {
		if v, ok := ParseValue(s); ok {
			t.Errorf("%q is %+v", s, v)
		}
	}
	for _, info := range []string{"not JSON", `{"o":"half`, `{"o":"a","h":"h"`, `{"o":"` + strings.Repeat("x", maxInfo) + `"}`, strings.Repeat("[", 1000)} {
		v, ok := ParseValue("hf1:a:1:2:0:" + info)
		if want := (Value{Token: "a", Fence: 1, Granted: 2}); !ok || !reflect.DeepEqual(v, want) {
			t.Errorf("a holder whose info cannot be read: %.50q: %+v, %v", info, v, ok)
		}
	}
}

func TestReply(t *testing.T) {
	r, err := ParseReply("held 1700000000000000 -1 2 hf1:a b")
	if err != nil || r.Word != "held" || r.Now != 1700000000000000 {
		t.Fatalf("%+v, %v", r, err)
	}
	var pttl, waiters int64
	if err := r.Ints(&pttl, &waiters); err != nil || pttl != -1 || waiters != 2 {
		t.Errorf("%d, %d, %v", pttl, waiters, err)
	}
	if r.Rest() != "hf1:a b" {
		t.Errorf("the rest is %q", r.Rest())
	}
	if err := r.Ints(&pttl); err != ErrMalformed {
		t.Errorf("text as a number: %v", err)
	}
	r, err = ParseReply("gone 1")
	if err != nil || r.Rest() != "" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.Ints(&pttl); err != ErrMalformed {
		t.Errorf("a number that is not there: %v", err)
	}

	_, err = ParseReply("error WRONGTYPE Operation against a key")
	var caught ScriptError
	if !errors.As(err, &caught) || caught.Error() != "WRONGTYPE Operation against a key" {
		t.Errorf("a script's error: %v", err)
	}
	for _, s := range []string{"", " ", "gone", "gone ", "gone x", "gone 0", "gone -1", "gone 1.5", "gone 9223372036854775808", "gone 9000000000000001"} {
		if r, err := ParseReply(s); err != ErrMalformed {
			t.Errorf("%q is %+v, %v", s, r, err)
		}
	}
}

func TestTimelessReply(t *testing.T) {
	for s, want := range map[string]Reply{
		"freed":          {Word: "freed"},
		"freed 1 3":      {Word: "freed", rest: "1 3"},
		"":               {},
		"errors are not": {Word: "errors", rest: "are not"},
	} {
		if r, err := ParseTimeless(s); err != nil || r != want {
			t.Errorf("%q is %+v, %v; want %+v", s, r, err, want)
		}
	}
	for s, want := range map[string]ScriptError{"error OOM command not allowed": "OOM command not allowed", "error": ""} {
		if r, err := ParseTimeless(s); err != want {
			t.Errorf("%q is %+v, %v; want the script's error %q", s, r, err, want)
		}
	}
}

// What a batch leaves is numbered from 1 on the wire, from 0 on here.
func TestLeft(t *testing.T) {
	for s, want := range map[string][]int{
		"":      nil,
		"1":     {0},
		"4":     {3},
		"1 2 4": {0, 1, 3},
	} {
		r := Fields(s)
		if got, err := r.Left(4); err != nil || !reflect.DeepEqual(got, want) || r.Rest() != "" {
			t.Errorf("%q of 4: %v, %v, and %q is left; want %v", s, got, err, r.Rest(), want)
		}
	}
	for _, s := range []string{
		"0", "-1", "5", "2 1", "1 1", "3 4 5", "1 3 2", "x", "1 x", "1.0", " ", " 1", "1  2", "+ 1", "1,2",
		"4294967297", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551617",
	} {
		r := Fields(s)
		if got, err := r.Left(4); err != ErrMalformed || got != nil {
			t.Errorf("%q of 4: %v, %v", s, got, err)
		}
	}
	none := Fields("1")
	if got, err := none.Left(0); err != ErrMalformed {
		t.Errorf("one left of none: %v, %v", got, err)
	}
}

func TestMessages(t *testing.T) {
	for s, want := range map[string]Message{
		"hf1 grant tok 17 1500 42 holdfast:{a b}": {Token: "tok", Grant: &Grant{Now: 17, Claim: 1500, Fence: 42, Lock: "holdfast:{a b}"}},
		"hf1 standby tok 17 99":                   {Token: "tok", Standby: &Standby{Now: 17, Due: 99}},
	} {
		if m, err := ParseMessage(s); err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%q: %+v, %v", s, m, err)
		}
	}
	for _, s := range []string{
		"", "hf1", "hf1 grant tok", "hf2 grant tok 17 1500 42 a", "hf1 other tok 17 99", "hf1 grant  17 1500 42 a",
		"hf1 grant tok 17 1500 42", "hf1 grant tok 17 1500 42 ", "hf1 grant tok x 1500 42 a", "hf1 grant tok 17 0 42 a",
		"hf1 grant tok 17 1500 0 a", "hf1 grant tok 17 1500 -1 a", "hf1 standby tok 17", "hf1 standby tok 17 x",
		"hf1 grant tok 0 1500 42 a", "hf1 grant tok 9000000000000001 1500 42 a", "hf1 standby tok -1 17", "hf1 standby tok 17 9223372036854775807",
		"hf1 grant tok 17 1500 42 " + strings.Repeat("a", maxMessage),
	} {
		if m, err := ParseMessage(s); err != ErrMalformed {
			t.Errorf("%q is %+v, %v", s, m, err)
		}
	}
}

// Whatever a server sends, nothing panics, and what is accepted is whole.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"hf1:token:42:1700000000000:0:{\"o\":\"x\"}+", "hf1:::::", "granted 1700000000000000 15000 42 1",
		"queued 1 -1 2 3 4 foreign", "error ERR x", "hf1 grant tok 17 1500 42 holdfast:{a}", "hf1 standby tok 17 99", "\xff \x00 ",
		"taken 1700000000000000 1700000000000001 2 5", "freed 1 128", "kept 1700000000000000 3 2", "freed -9223372036854775808",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := ParseValue(s); ok && !strings.HasPrefix(s, "hf1:"+v.Token+":") {
			t.Errorf("%q has the token %q", s, v.Token)
		} else if text, err := json.Marshal(v.Info); ok && (err != nil || !utf8.ValidString(v.Info.Owner)) {
			t.Errorf("%q has the info %s, %v", s, text, err)
		} else if year := time.UnixMilli(v.Granted).Year(); ok && (year < 1969 || year > 9999) {
			t.Errorf("%q was granted in %d", s, year)
		}
		if r, err := ParseReply(s); err == nil {
			if r.Now <= 0 || r.Now > MaxTime {
				t.Errorf("%q has the time %d", s, r.Now)
			}
			for before := len(s); r.Ints(new(int64)) == nil; before = len(r.Rest()) {
				if len(r.Rest()) >= before {
					t.Fatalf("%q: reading does not get on", s)
				}
			}
		}
		if r, err := ParseTimeless(s); err == nil {
			const batch = 128
			left, err := r.Left(batch)
			if err == nil && (len(left) > batch || !slices.IsSorted(left) || r.Rest() != "") {
				t.Errorf("%q leaves %v, and of itself %q", s, left, r.Rest())
			}
			for i, n := range left {
				if n < 0 || n >= batch || i > 0 && n == left[i-1] {
					t.Errorf("%q leaves %v", s, left)
				}
			}
		}
		m, err := ParseMessage(s)
		if err == nil && (m.Token == "" || (m.Grant == nil) == (m.Standby == nil)) {
			t.Errorf("%q is %+v", s, m)
		}
		if err == nil && m.Grant != nil && (m.Grant.Claim <= 0 || m.Grant.Fence == 0 || m.Grant.Lock == "") {
			t.Errorf("%q is %+v", s, *m.Grant)
		}
	})
}

// A client in another language may write a process id as a string, or a note as a number.
func TestFieldsOfOtherTypesDoNotCostTheOthers(t *testing.T) {
	for text, want := range map[string]Info{
		`{"o":"api","h":"host","p":"812"}`:                     {Owner: "api", Host: "host", PID: 812},
		`{"o":"api","h":"host","p":812.0}`:                     {Owner: "api", Host: "host", PID: 812},
		`{"o":"api","h":"host","p":-1}`:                        {Owner: "api", Host: "host"},
		`{"o":"api","h":"host","p":1e300}`:                     {Owner: "api", Host: "host"},
		`{"o":"api","h":"host","p":"NaN"}`:                     {Owner: "api", Host: "host"},
		`{"o":"api","h":"host","p":{"id":1}}`:                  {Owner: "api", Host: "host"},
		`{"o":"api","h":null,"p":null,"m":null}`:               {Owner: "api"},
		`{"o":42,"h":["a"],"p":1}`:                             {Owner: "42", Host: `["a"]`, PID: 1},
		`{"o":"api","m":{"try":3,"done":false,"by":"x"}}`:      {Owner: "api", Meta: map[string]string{"try": "3", "done": "false", "by": "x"}},
		`{"o":"api","m":["a"],"p":7}`:                          {Owner: "api", PID: 7},
		`{"o":"api","m":"a","p":7}`:                            {Owner: "api", PID: 7},
		`{"o":"api","p":7} x`:                                  {},
		`"api"`:                                                {},
		`{"o":"` + strings.Repeat("x", maxInfo) + `","p":"7"}`: {},
	} {
		if got := ParseInfo(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%.60s: %+v, want %+v", text, got, want)
		}
	}
}
