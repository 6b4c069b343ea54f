package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == workerArgument || os.Args[1] == delayerArgument) {
		main()
	}
	os.Exit(m.Run())
}

// medians runs the bench, which has to succeed, and returns its medians, and all that it wrote.
func medians(t *testing.T, args ...string) (r results, tables, said string) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	var out, log bytes.Buffer
	if code := bench(t.Context(), args, nil, &out, &log); code != 0 {
		t.Fatalf("code %d: %s", code, &log)
	}
	tables, line, ok := strings.Cut(out.String(), "\n{")
	var all struct{ Medians results }
	if err := json.Unmarshal([]byte("{"+line), &all); !ok || err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	return all.Medians, tables, log.String()
}
