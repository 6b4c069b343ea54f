package cli

import (
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestASpoolKeepsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, w := io.Pipe()
		s := &spool{w: w}
		text := strings.Repeat("x", 1023) + "\n"
		for range 2000 { // two megabytes, of which it keeps one, and what it is writing
			if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		if took := time.Since(began); took > soon {
			t.Errorf("writing took %s", took)
		}
		signals := make(chan os.Signal, 1)
		signals <- os.Interrupt
		s.flush(signals) // which ends by that
		var said strings.Builder
		go func() { _, _ = io.Copy(&said, r) }()
		s.flush(signals)
		w.Close()
		synctest.Wait()
		if want := strings.Repeat(text, 1025) + "holdfast: 975 messages were left out\n"; said.String() != want {
			t.Errorf("said %d bytes, %.200q; want %d", said.Len(), said.String()[max(0, said.Len()-100):], len(want))
		}
	})
}

// What is read is written in order, and when Write returns.
func TestASpoolIsInTime(t *testing.T) {
	var said strings.Builder
	s := &spool{w: &said}
	for _, text := range []string{"one ", "two ", "three"} {
		_, _ = s.Write([]byte(text))
		s.flush(nil)
	}
	if said.String() != "one two three" {
		t.Errorf("said %q", said.String())
	}
	s.flush(make(chan os.Signal)) // nothing waits
}
