package wire

import (
	"reflect"
	"strings"
	"testing"
)

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
