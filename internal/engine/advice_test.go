package engine

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// Nobody can do anything about these, least of all see whether the server is running.
func TestNothingIsAdvisedWithoutReason(t *testing.T) {
	for _, met := range []error{errLate, errClockJumps} {
		err := (&exec.Failure{Op: "acquire", Name: "a", Server: "host:1", Kind: exec.ErrUnavailable, Err: met}).Error()
		if strings.HasSuffix(err, ")") {
			t.Errorf("there is no next step: %s", err)
		}
	}
}
