// Package terminal handles the signals that holdfast receives, and the foreground and the size of its terminal.
package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ os.Signal }

func (e SignalError) Error() string { return "stopped by a signal: " + e.String() }

// BrokenPipe is caused by holdfast's own writes, and is not passed on to the command.
const BrokenPipe = syscall.SIGPIPE

// Context returns a context that ends, with a SignalError as its cause, when a signal asks the program to end, or when the reader of its
// output has gone. A second signal has its default effect.
func Context(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 1)
	for _, sig := range Signals() {
		if EndsProgram(sig) || sig == BrokenPipe {
			signal.Notify(received, sig)
		}
	}
	go func() {
		defer signal.Stop(received)
		for {
			select {
			case sig := <-received:
				if sig == BrokenPipe && !outputClosed() {
					continue
				}
				cancel(SignalError{sig})
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
			if sig == Suspend {
				StopGroup()
			}
			if EndsProgram(sig) {
				return false
			}
		}
	}
}

// EndsProgram reports whether sig asks a program to end.
func EndsProgram(sig os.Signal) bool {
	switch sig {
	case os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// Number returns the number of sig.
func Number(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return int(n)
}
