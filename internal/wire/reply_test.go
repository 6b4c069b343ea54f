package wire

import (
	"errors"
	"testing"
)

func TestReply(t *testing.T) {
	r, err := ParseReply("held 1700000000000000 -1 2 hf2:a b")
	if err != nil || r.Word != "held" || r.Now != 1700000000000000 {
		t.Fatalf("ParseReply = %+v, %v", r, err)
	}
	var pttl, waiters int64
	if err := r.ints(&pttl, &waiters); err != nil || pttl != -1 || waiters != 2 {
		t.Errorf("ints = %v, read %d, %d; want -1, 2", err, pttl, waiters)
	}
	if r.Rest() != "hf2:a b" {
		t.Errorf("Rest = %q", r.Rest())
	}
	if err := r.ints(&pttl); err != ErrMalformed {
		t.Errorf("ints of a field that is no number: %v", err)
	}
	r, err = ParseReply("gone 1")
	if err != nil || r.Rest() != "" {
		t.Errorf("ParseReply = %+v, %v", r, err)
	}
	if err := r.ints(&pttl); err != ErrMalformed {
		t.Errorf("ints of a missing field: %v", err)
	}

	_, err = ParseReply("error WRONGTYPE Operation against a key")
	var caught ScriptError
	if !errors.As(err, &caught) || caught.Error() != "WRONGTYPE Operation against a key" {
		t.Errorf("a script's error becomes %v", err)
	}
	for _, s := range []string{"", " ", "gone", "gone ", "gone x", "gone 0", "gone -1", "gone 1.5", "gone 9223372036854775808", "gone 9000000000000001"} {
		if r, err := ParseReply(s); err != ErrMalformed {
			t.Errorf("ParseReply(%q) = %+v, %v; want ErrMalformed", s, r, err)
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
			t.Errorf("ParseTimeless(%q) = %+v, %v; want %+v", s, r, err, want)
		}
	}
	for s, want := range map[string]ScriptError{"error OOM command not allowed": "OOM command not allowed", "error": ""} {
		if r, err := ParseTimeless(s); err != want {
			t.Errorf("ParseTimeless(%q) = %+v, %v; want the script's error %q", s, r, err, want)
		}
	}
}
