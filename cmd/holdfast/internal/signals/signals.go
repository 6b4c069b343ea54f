// Package signals knows the signals that holdfast receives, and what each of them asks for.
package signals

import (
	"context"
	"os"
	"os/signal"
)

// Error is the cause of a context that a signal ended.
type Error struct{ os.Signal }

func (e Error) Error() string { return "stopped by a signal: " + e.String() }

// Context returns a context that ends, with an Error as its cause, when a signal asks the program to end, or when the reader of its output
// has gone. A second signal has its default effect.
func Context(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 1)
	for _, sig := range Handled() {
		if EndsProgram(sig) || IsBrokenPipe(sig) {
			signal.Notify(received, sig)
		}
	}
	go func() {
		defer signal.Stop(received)
		for {
			select {
			case sig := <-received:
				if IsBrokenPipe(sig) && !outputClosed() {
					continue
				}
				cancel(Error{sig})
			case <-ctx.Done():
			}
			return
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Await waits until done is closed, or until a signal asks the program to end, and reports whether done is closed. Meanwhile, ^Z stops the
// program.
func Await(done <-chan struct{}, received <-chan os.Signal) bool {
	for {
		select {
		case <-done:
			return true
		case sig := <-received:
			if Suspends(sig) {
				StopGroup()
			}
			if EndsProgram(sig) {
				return false
			}
		}
	}
}
