package spool

import (
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const patience = 100 * time.Millisecond

func TestAWriterDoesNotBlock(t *testing.T) {
	for patience, note := range map[time.Duration]string{patience: "holdfast: 975 messages were dropped\n", 0: ""} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r, w := io.Pipe()
			s := New(w, patience)
			text := strings.Repeat("x", 1023) + "\n"
			for range 2000 { // it keeps 1024, besides the one that it is passing on
				if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatal(n, err)
				}
			}
			if took := time.Since(began); took > patience {
				t.Errorf("writing took %s", took)
			}
			signals := make(chan os.Signal, 1)
			signals <- os.Interrupt
			s.Flush(signals) // returns because of the signal
			var said strings.Builder
			go func() { _, _ = io.Copy(&said, r) }()
			s.Flush(signals)
			s.Close()
			_, _ = s.Write([]byte(text)) // is dropped
			w.Close()
			synctest.Wait()
			if got := strings.TrimLeft(said.String(), "x\n"); got != note || said.Len() < 1024*len(text) {
				t.Errorf("said %d bytes, and %q; want %q", said.Len(), got, note)
			}
		})
	}
}

// If the output has a reader, text is written in order and before Write returns.
func TestAWriterKeepsUpWithItsReader(t *testing.T) {
	var said strings.Builder
	s := New(&said, patience)
	defer s.Close()
	for _, text := range []string{"one ", "two ", "three"} {
		_, _ = s.Write([]byte(text))
		s.Flush(nil)
	}
	if said.String() != "one two three" {
		t.Errorf("said %q", said.String())
	}
	s.Flush(make(chan os.Signal)) // returns at once
}
