package exitcode

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestOfLibrary(t *testing.T) {
	for err, code := range map[error]int{
		holdfast.ErrUnavailable: 69,
		holdfast.ErrReplicas:    69,
		holdfast.ErrQuarantine:  69,
		holdfast.ErrDenied:      77,
		holdfast.ErrMismatch:    78,
		holdfast.ErrUnsupported: 78,
		holdfast.ErrInvalid:     64,
	} {
		wrapped := &holdfast.ServerError{Op: "acquire", Name: "n", Server: "s", Err: err}
		if got := OfLibrary(wrapped); got.Code != code || !errors.Is(got, err) {
			t.Errorf("%v: exit code %d, want %d", err, got.Code, code)
		}
	}
}
