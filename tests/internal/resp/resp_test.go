package resp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	for in, want := range map[string]any{
		"+OK\r\n":                              "OK",
		"-ERR no\r\n":                          Error("ERR no"),
		":-7\r\n":                              int64(-7),
		"$5\r\na\r\nbc\r\n":                    "a\r\nbc",
		"$0\r\n\r\n":                           "",
		"$-1\r\n":                              nil,
		"*-1\r\n":                              nil,
		"*0\r\n":                               []any{},
		"*3\r\n:1\r\n*1\r\n-E x\r\n$-1\r\n":    []any{int64(1), []any{Error("E x")}, nil},
		"*2\r\n$1\r\nx\r\n+y\r\n+not ours\r\n": []any{"x", "y"},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(in)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("reply %q: got %#v, %v; want %#v", in, got, err, want)
		}
	}
}

func TestReadReplyRefusesNonsense(t *testing.T) {
	for _, in := range []string{"", "+OK", "\r\n", "?2\r\n", "$-2\r\n", "$x\r\n", "$3\r\na\r\n", "*2\r\n:1\r\n"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(in))); err == nil {
			t.Errorf("reply %q was read as %#v", in, got)
		}
	}
}

func TestReadRequestKeepsItsBytes(t *testing.T) {
	requests := [][]byte{
		Request("SET", "key", 12),
		[]byte("PING inline\r\n"),
		Request("EVAL", []byte("a\r\nb"), ""),
		Request("ECHO", strings.Repeat("x", 100_000)),
	}
	r := bufio.NewReader(bytes.NewReader(bytes.Join(requests, nil)))
	for _, want := range requests {
		got, err := ReadRequest(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %.60q, %v; want %.60q", got, err, want)
		}
	}
	if _, err := ReadRequest(r); !errors.Is(err, io.EOF) {
		t.Errorf("after the last request: %v; want EOF", err)
	}
}

func TestReadRequestReportsABrokenOne(t *testing.T) {
	whole := Request("SET", "key", "value")
	for cut := 1; cut < len(whole); cut++ {
		if got, err := ReadRequest(bufio.NewReader(bytes.NewReader(whole[:cut]))); err == nil {
			t.Errorf("%q was read as a request: %q", whole[:cut], got)
		}
	}
}
