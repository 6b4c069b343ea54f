package wire

import "testing"

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
