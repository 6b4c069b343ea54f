package resp

import (
	"bufio"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n":                             "OK",
		"-ERR no\r\n":                         driver.ReplyError("ERR no"),
		":-12\r\n":                            int64(-12),
		"$4\r\na\r\nb\r\n":                    "a\r\nb",
		"$0\r\n\r\n":                          "",
		"$-1\r\n":                             nil,
		"*-1\r\n":                             nil,
		"*0\r\n":                              []any{},
		"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n":       []any{[]any{int64(1)}, "x"},
		string(Append(nil, "get", "a b", "")): []any{"get", "a b", ""},
	} {
		in := bufio.NewReader(strings.NewReader(text + "+next\r\n"))
		got, err := Read(in)
		if next, _ := Read(in); !reflect.DeepEqual(got, want) || err != nil || next != "next" {
			t.Errorf("%q: %#v, %v, and then %v; want %#v", text, got, err, next, want)
		}
	}
}

// A server cannot make the reader use memory without end.
func TestReadRefusesWhatIsNoReply(t *testing.T) {
	for name, text := range map[string]string{
		"nested arrays":      strings.Repeat("*1\r\n", maxDepth+1) + ":1",
		"an endless line":    "+" + strings.Repeat("x", maxLine+4096),
		"too long a string":  "$99999999999\r\n",
		"too many items":     strings.Repeat("*600000\r\n", 2) + ":1",
		"no number":          "*x\r\n",
		"an empty line":      "\r\n",
		"a bare line feed":   "+OK\n",
		"another protocol":   "HTTP/1.1 200 OK\r\n",
		"a type of RESP3":    "%1\r\n+k\r\n+v\r\n",
		"an error in a list": "*2\r\n:1\r\nno\r\n",
	} {
		if got, err := Read(bufio.NewReader(strings.NewReader(text + "\r\n"))); err != errMalformed {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
