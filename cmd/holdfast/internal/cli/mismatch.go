package cli

import (
	"errors"

	"github.com/holdfast-go/holdfast"
)

// mismatchAdvice says what to do after an ErrMismatch, in the words of the command that got it. It returns "" for other errors.
func mismatchAdvice(command string, err error) string {
	var server *holdfast.ServerError
	switch {
	case !errors.Is(err, holdfast.ErrMismatch):
		return ""
	case errors.As(err, &server) && server.Code == "BADFENCE": // it is not about NAME, and says what to do
		return ""
	case errors.As(err, &server) && otherNumber[command][server.Code] != "":
		return otherNumber[command][server.Code]
	}
	return otherKind[command]
}

// otherNumber is the advice where the number of slots or parties differs, by command and ServerError.Code.
var otherNumber = map[string]map[string]string{
	"run":     {"BADLIMIT": "give --slots the number that the other runs give, or change it for all with holdfast resize"},
	"latch":   {"BADPARTIES": "give the N that the others give, or start the latch over with another: holdfast latch NAME N reset"},
	"barrier": {"BADPARTIES": "give the N that the other parties give"},
}

// otherKind is the advice where the lock is of another kind, by command.
var otherKind = map[string]string{
	"run":     "if another run holds it: all runs of a NAME are plain ones, or all with --shared or --exclusive, or all with --slots, or all with --owner",
	"once":    "give a NAME that only runs with --once use",
	"acquire": "give a NAME that only holdfast acquire, holdfast elect and plain runs use",
	"renew":   "the ticket's lock is gone, and its NAME is used for something else",
	"release": "the ticket's lock is gone, and its NAME is used for something else",
	"elect":   "give a NAME that only holdfast elect, holdfast acquire and plain runs use",
	"latch":   "give a NAME that only holdfast latch uses",
	"barrier": "give a NAME that only holdfast barrier uses",
	"resize":  "give the NAME of runs with --slots, or of a semaphore",
}
