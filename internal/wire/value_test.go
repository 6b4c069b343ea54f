package wire

import (
	"reflect"
	"strings"
	"testing"
)

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
