package engine

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Callers can do nothing about these errors. It would not help them to check whether the server is
// running.
func TestNothingIsAdvisedWithoutReason(t *testing.T) {
	for _, cause := range []error{errLate, lock.Unadvised("its clock jumps")} {
		err := (&exec.Failure{Op: "acquire", Name: "a", Server: "host:1", Kind: exec.ErrUnavailable, Err: cause}).Error()
		if strings.HasSuffix(err, ")") {
			t.Errorf("advice where there is no next step: %s", err)
		}
	}
}
