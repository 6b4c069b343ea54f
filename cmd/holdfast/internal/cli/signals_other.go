//go:build !unix

package cli

import (
	"os"
	"syscall"
)

const numberOfContinue = 0

// heard lists the signals to receive.
func heard() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// interrupts reports whether sig asks a program to end.
func interrupts(os.Signal) bool { return true }

func ours(os.Signal) bool { return false }

func outputIsGone() bool { return false }

func suspends(os.Signal) bool { return false }

func continues(os.Signal) bool { return false }

func number(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// Nothing here stops jobs.
func wantsTerminal(int) bool { return false }
func tolerateBackground()    {}
func stopGroup()             {}
