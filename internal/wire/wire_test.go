package wire

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// No input makes a parser panic, and whatever is accepted is complete and in range.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"hf2:token:42:1700000000000:0:{\"o\":\"x\"}+", "hf2:::::", "granted 1700000000000000 15000 42 1",
		"queued 1 -1 2 3 4 foreign", "error ERR x", "hf2 grant tok 17 1500 42 holdfast:{a}", "hf2 standby tok 17 99", "\xff \x00 ",
		"taken 1700000000000000 1700000000000001 2 5", "freed 1 128", "kept 1700000000000000 3 2", "freed -9223372036854775808",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := ParseValue(s); ok && !strings.HasPrefix(s, "hf2:"+v.Token+":") {
			t.Errorf("ParseValue(%q) has the token %q", s, v.Token)
		} else if text, err := json.Marshal(v.Info); ok && (err != nil || !utf8.ValidString(v.Info.Owner)) {
			t.Errorf("ParseValue(%q) has the info %s, %v", s, text, err)
		} else if year := time.UnixMilli(v.Granted).Year(); ok && (year < 1969 || year > 9999) {
			t.Errorf("ParseValue(%q) was granted in the year %d", s, year)
		}
		if id := GrantOf(s); id != "" && (!IsGrant(id) || !strings.HasPrefix(s, id)) {
			t.Errorf("GrantOf(%q) = %q", s, id)
		}
		if r, err := ParseReply(s); err == nil {
			if r.Now <= 0 || r.Now > MaxTime {
				t.Errorf("ParseReply(%q) has the time %d", s, r.Now)
			}
			for text := r.Rest; ; {
				rest, err := ints(text, new(int64))
				if err != nil {
					break
				}
				if len(rest) >= len(text) {
					t.Fatalf("ints does not consume fields of %q", s)
				}
				text = rest
			}
		}
		if n, err := ParseNotice(s); err == nil && (!IsGrant(n.Grant) || n.Lock == "") {
			t.Errorf("ParseNotice(%q) = %+v", s, n)
		}
		m, err := ParseMessage(s)
		if err == nil && (m.Token == "" || (m.Grant == nil) == (m.Standby == nil)) {
			t.Errorf("ParseMessage(%q) = %+v", s, m)
		}
		if err == nil && m.Grant != nil && (m.Grant.Claim <= 0 || m.Grant.Fence == 0 || m.Grant.Lock == "") {
			t.Errorf("ParseMessage(%q) has the grant %+v", s, *m.Grant)
		}
	})
}

func TestParseNotice(t *testing.T) {
	for s, want := range map[string]Notice{
		"hf2 broken 17 k3v9x2ab 42 holdfast:{a b}\n{\"b\":\"ann\",\"r\":\"hangs\"}": {Broken: true, Now: 17, Grant: "k3v9x2ab", Fence: 42, Lock: "holdfast:{a b}", Note: Remark{By: "ann", Reason: "hangs"}},
		"hf2 revoked 17 -_-_-_-_ 0 k\n{\"b\":1,\"w\":\"x\"}":                        {Now: 17, Grant: "-_-_-_-_", Lock: "k", Note: Remark{By: "1", Whole: "x"}},
		"hf2 revoked 17 k3v9x2ab 42 k":                                              {Now: 17, Grant: "k3v9x2ab", Fence: 42, Lock: "k"},
		"hf2 revoked 17 k3v9x2ab 42 k\n{":                                           {Now: 17, Grant: "k3v9x2ab", Fence: 42, Lock: "k"},
	} {
		if n, err := ParseNotice(s); err != nil || n != want {
			t.Errorf("ParseNotice(%q) = %+v, %v; want %+v", s, n, err, want)
		}
	}
	for _, s := range []string{
		"", "hf2 broken", "hf1 broken 17 k3v9x2ab 42 k", "hf2 grant 17 k3v9x2ab 42 k", "hf2 broken 17 k3v9x2ab -1 k", "hf2 broken x k3v9x2ab 42 k",
		"hf2 broken 17 k3v9x2ab 42 ", "hf2 broken 0 k3v9x2ab 42 k", "hf2 broken 17 42 k", "hf2 broken 17 k3v9x2a 42 k", "hf2 broken 17 k3v9x2abc 42 k",
		"hf2 broken 17 k3v9x2ab k", "hf2 broken 17 k3v9x2ab 42 " + strings.Repeat("a", maxMessage+maxRemark),
	} {
		if n, err := ParseNotice(s); err != ErrMalformed {
			t.Errorf("ParseNotice(%q) = %+v, %v; want ErrMalformed", s, n, err)
		}
	}
	long := Remark{By: "ann", Reason: strings.Repeat("x", maxRemark)}
	if text, err := long.Encode(); err == nil {
		t.Errorf("a remark of %d bytes is encoded", len(text))
	}
}

func TestParseMessage(t *testing.T) {
	for s, want := range map[string]Message{
		"hf2 grant tok 17 1500 42 holdfast:{a b}": {Token: "tok", Grant: &Grant{Now: 17, Claim: 1500, Fence: 42, Lock: "holdfast:{a b}"}},
		"hf2 standby tok 17 99":                   {Token: "tok", Standby: &Standby{Now: 17, Due: 99}},
	} {
		if m, err := ParseMessage(s); err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("ParseMessage(%q) = %+v, %v; want %+v", s, m, err, want)
		}
	}
	for _, s := range []string{
		"", "hf2", "hf2 grant tok", "hf1 grant tok 17 1500 42 a", "hf2 other tok 17 99", "hf2 grant  17 1500 42 a",
		"hf2 grant tok 17 1500 42", "hf2 grant tok 17 1500 42 ", "hf2 grant tok x 1500 42 a", "hf2 grant tok 17 0 42 a",
		"hf2 grant tok 17 1500 0 a", "hf2 grant tok 17 1500 -1 a", "hf2 standby tok 17", "hf2 standby tok 17 x",
		"hf2 grant tok 0 1500 42 a", "hf2 grant tok 9000000000000001 1500 42 a", "hf2 standby tok -1 17", "hf2 standby tok 17 9223372036854775807",
		"hf2 grant tok 17 1500 42 " + strings.Repeat("a", maxMessage),
	} {
		if m, err := ParseMessage(s); err != ErrMalformed {
			t.Errorf("ParseMessage(%q) = %+v, %v; want ErrMalformed", s, m, err)
		}
	}
}

var sound = Ticket{Prefix: "holdfast:", Lock: "orders {7} ü", Token: "AAECAwQFBgcICQoLDA0ODw", Fence: 1795570765586025, Tombstone: 1795570769586025}

// A ticket survives being carried as text.
func TestTicketText(t *testing.T) {
	key := sound
	key.Exact, key.Tombstone = true, 0
	longest := sound
	longest.Prefix, longest.Lock, longest.Fence, longest.Tombstone = strings.Repeat("p", 512), strings.Repeat("n", 512), maxFence, MaxTime
	braces := sound
	braces.Lock = "a}{b"
	for _, want := range []Ticket{sound, key, longest, braces} {
		text := want.Text()
		if got, err := ParseTicket(text); err != nil || got != want {
			t.Errorf("ParseTicket(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Errorf("the text %q has characters that shells or addresses change", text)
		}
	}
}

// What is not the whole text of a ticket is refused, and not shown in the error.
func TestTicketTextIsStrict(t *testing.T) {
	text := sound.Text()
	for n := range len(text) {
		if _, err := ParseTicket(text[:n]); err == nil {
			t.Errorf("accepted the first %d bytes of %d", n, len(text))
		}
	}
	written := func(fields string) string { return ticketBegin + base64.RawURLEncoding.EncodeToString([]byte(fields)) }
	const token, lock = "AAECAwQFBgcICQoLDA0ODw", "holdfast:{orders}"
	if _, err := ParseTicket(written("name " + token + " 7 0 " + lock)); err != nil {
		t.Fatal(err) // the others differ from this one in one place
	}
	for what, bad := range map[string]string{
		"another version":     strings.Replace(text, "hf2t.", "hf1t.", 1),
		"a line's end":        text + "\n",
		"padding":             text + "=",
		"another kind":        written("rw " + token + " 7 0 " + lock),
		"no kind":             written(token + " 7 0 " + lock),
		"a short token":       written("name " + token[:21] + " 7 0 " + lock),
		"a long token":        written("name " + token + "A 7 0 " + lock),
		"a colon in it":       written("name " + token[:20] + "a: 7 0 " + lock),
		"no fence":            written("name " + token + " 0 0 " + lock),
		"a negative fence":    written("name " + token + " -7 0 " + lock),
		"a fence with a sign": written("name " + token + " +7 0 " + lock),
		"a zero before it":    written("name " + token + " 07 0 " + lock),
		"a huge fence":        written("name " + token + " 9007199254740993 0 " + lock),
		"an earlier time":     written("name " + token + " 7 -1 " + lock),
		"a later time":        written("name " + token + " 7 9000000000000001 " + lock),
		"no prefix":           written("name " + token + " 7 0 {orders}"),
		"a brace in it":       written("name " + token + " 7 0 hold}fast:{orders}"),
		"no name":             written("name " + token + " 7 0 holdfast:{}"),
		"no braces":           written("name " + token + " 7 0 holdfast:orders"),
		"an open brace":       written("name " + token + " 7 0 holdfast:{orders"),
		"something behind":    written("name " + token + " 7 0 " + lock + " "),
		"control characters":  written("name " + token + " 7 0 holdfast:{or\nders}"),
		"broken UTF-8":        written("name " + token + " 7 0 holdfast:{or\xffders}"),
		"a long name":         written("name " + token + " 7 0 holdfast:{" + strings.Repeat("n", 513) + "}"),
		"a long prefix":       written("name " + token + " 7 0 " + strings.Repeat("p", 513) + "{orders}"),
		"a long text":         written("name " + token + " 7 0 holdfast:{" + strings.Repeat("n", 5000) + "}"),
		"nothing":             "",
	} {
		got, err := ParseTicket(bad)
		if err != ErrTicket {
			t.Errorf("%s: ParseTicket = %+v, %v; want ErrTicket", what, got, err)
		}
	}
}

func FuzzTicket(f *testing.F) {
	f.Add(sound.Text())
	f.Add(ticketBegin + base64.RawURLEncoding.EncodeToString([]byte("key AAECAwQFBgcICQoLDA0ODw 7 0 p{k}")))
	f.Add(ticketBegin)
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := ParseTicket(text)
		if err == nil && (ticket.Text() != text || !ticket.sound() || len(text) > maxTicket) {
			t.Errorf("%q was read as %+v", text, ticket)
		}
	})
}

func TestAValueContainsItsInfo(t *testing.T) {
	info := Info{Owner: "o:1", Host: "h", PID: 7, Meta: map[string]string{"k": "a:b\n+", "": "é"}}
	text, err := info.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "\n") {
		t.Errorf("Encode = %q, more than one line", text)
	}
	of := Head("hf2:token:")
	for _, value := range []string{"hf2:token:42:1700000000000:3@1700000000000:" + text, "hf2:token:42:1700000000000:0:" + text, "hf2:token:42:1700000000000:0:" + text + "+"} {
		v, ok := ParseValue(value)
		want := Value{Token: "token", Fence: 42, Granted: 1700000000000, Info: info}
		if !ok || !reflect.DeepEqual(v, want) || !strings.HasPrefix(value, string(of)) || of.Token() != "token" {
			t.Errorf("%q is read as %+v, %v; want %+v", value, v, ok, want)
		}
	}
	if got, want := string(of.AppendGrant(nil, 1<<64-1)), "hf2:token:18446744073709551615:"; got != want {
		t.Errorf("a grant begins with %q", got)
	}
}

func TestTheLengthOfInfoIsBounded(t *testing.T) {
	info := Info{Owner: strings.Repeat("x", maxInfo-len(`{"o":""}`))}
	if text, err := info.Encode(); err != nil || len(text) != maxInfo {
		t.Errorf("Encode returns %d bytes, %v; want %d", len(text), err, maxInfo)
	}
	info.Owner += "x"
	if _, err := info.Encode(); err == nil {
		t.Error("Encode accepts one byte too many")
	}
}

func TestValuesOfOtherFormatsAreRefused(t *testing.T) {
	for _, s := range []string{
		"", "+", "theirs", "hf2:", "hf2:a:1:2:0", "hf1:a:1:2:0:{}", "HF2:a:1:2:0:{}", "xhf2:a:1:2:0:{}",
		"hf2:a:1:-1:0:{}", "hf2:a:1:9000000000001:0:{}", "hf2:a:1:9223372036854775807:0:{}", "hf2:a:x:2:0:{}", "hf2:a:-1:2:0:{}", "hf2:a:1:x:0:{}", "hf2:a:1::0:{}", "hf2:a:18446744073709551616:2:0:{}",
	} {
		if v, ok := ParseValue(s); ok {
			t.Errorf("ParseValue(%q) = %+v", s, v)
		}
	}
	for _, info := range []string{"not JSON", `{"o":"half`, `{"o":"a","h":"h"`, `{"o":"` + strings.Repeat("x", maxInfo) + `"}`, strings.Repeat("[", 1000)} {
		v, ok := ParseValue("hf2:a:1:2:0:" + info)
		if want := (Value{Token: "a", Fence: 1, Granted: 2}); !ok || !reflect.DeepEqual(v, want) {
			t.Errorf("with the info %.50q: %+v, %v; want %+v", info, v, ok, want)
		}
	}
}

// A client in another language may write a process id as a string, or a value of meta as a number.
func TestAFieldOfAnotherTypeLeavesTheOthersReadable(t *testing.T) {
	for text, want := range map[string]Info{
		`{"o":"api","h":"host","p":"812"}`:                     {Owner: "api", Host: "host", PID: 812},
		`{"o":"api","h":"host","p":812.0}`:                     {Owner: "api", Host: "host", PID: 812},
		`{"o":"api","h":"host","p":-1}`:                        {Owner: "api", Host: "host"},
		`{"o":"api","h":"host","p":1e300}`:                     {Owner: "api", Host: "host"},
		`{"o":"api","h":"host","p":"NaN"}`:                     {Owner: "api", Host: "host"},
		`{"o":"api","h":"host","p":{"id":1}}`:                  {Owner: "api", Host: "host"},
		`{"o":"api","k":"election"}`:                           {Owner: "api", Kind: "election"},
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
			t.Errorf("ParseInfo(%.60s) = %+v, want %+v", text, got, want)
		}
	}
}

// A grant id is safe to show, and shows no more of a token than it has to.
func TestGrantOf(t *testing.T) {
	for token, want := range map[string]string{
		"k3v9x2abQEFBgcICQoLDA0":  "k3v9x2ab",
		"-_-_-_-_QEFBgcICQoLDA0":  "-_-_-_-_",
		"k3v9x2ab":                "k3v9x2ab",
		"k3v9x2a":                 "",
		NoToken:                   "",
		"":                        "",
		"k3v9x2a\nxxxxxxxxxxxxxx": "",
		"k3v9 2abxxxxxxxxxxxxxx":  "",
		"k3v9x2\u00e9xxxxxxxxxxx": "",
	} {
		if got := GrantOf(token); got != want {
			t.Errorf("GrantOf(%q) = %q, want %q", token, got, want)
		}
	}
	for _, s := range []string{"", "k3v9x2a", "k3v9x2abc", "k3v9x2a "} {
		if IsGrant(s) {
			t.Errorf("%q is a grant id", s)
		}
	}
}
