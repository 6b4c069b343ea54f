package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// Main obeys the orders on standard input until it ends, and answers on standard output.
func Main(open Opener) {
	if err := obey(open, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "campaign worker:", err)
		os.Exit(1)
	}
}

func obey(open Opener, in io.Reader, out io.Writer) error {
	say := &speaker{out: out}
	var p *part
	for orders := json.NewDecoder(bufio.NewReader(in)); ; {
		var o Order
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if o.Do != Start && p == nil {
			return fmt.Errorf("order %q before a script", o.Do)
		}
		switch o.Do {
		case Start:
			var err error
			if p, err = begin(open, *o.Script, say); err != nil {
				return err
			}
			say.line(StartedLine, struct{}{})
		case Cancel:
			p.cancelAll()
		case Reopen:
			go p.reopen()
		case Hog:
			hog(o.For)
		case Drain:
			p.drain()
		case End:
			say.line(EndedLine, p.end())
			p = nil
		default:
			return fmt.Errorf("unknown order %q", o.Do)
		}
	}
}

// speaker writes each line in one Write, so that a process that is killed leaves what it knew.
type speaker struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *speaker) line(kind byte, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	s.write(kind, append(text, '\n'))
}

func (s *speaker) write(kind byte, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(append([]byte{kind, ' '}, text...)); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

// events makes lines of what a history.Recorder writes.
type events struct{ *speaker }

func (e events) Write(line []byte) (int, error) {
	e.write(EventLine, line)
	return len(line), nil
}

// hog keeps every thread of the process busy.
func hog(d time.Duration) {
	end := time.Now().Add(d)
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for time.Now().Before(end) {
			}
		}()
	}
}

// settled waits for a while until no more goroutines are left than before, and returns how many are left.
func settled(before int) int {
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if n := runtime.NumGoroutine(); n <= before || time.Now().After(end) {
			return n
		}
	}
}

// closing bounds Close: nothing that is held then lasts longer.
const closing = 20 * time.Second

func closeLocks(l Locks) error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return l.Close(ctx)
}
