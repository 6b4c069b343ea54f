package holdfast_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A Holder of which anything is known is not zero.
func TestIsZeroLooksAtEveryField(t *testing.T) {
	t.Parallel()
	if !(holdfast.Holder{}).IsZero() {
		t.Error("the zero Holder is not zero")
	}
	some := reflect.ValueOf(holdfast.Holder{
		Name: "m", Identity: "me", Host: "host", PID: 1, Meta: map[string]string{}, Mode: holdfast.ModeReader, Permits: 1, Grant: "k3v9x2ab", Fence: 1,
		Since: time.Now(), TTL: -1, Foreign: true,
	})
	for i := range some.NumField() {
		var h holdfast.Holder
		if some.Field(i).IsZero() {
			t.Fatalf("this test knows nothing of %s", some.Type().Field(i).Name)
		}
		reflect.ValueOf(&h).Elem().Field(i).Set(some.Field(i))
		if h.IsZero() {
			t.Errorf("a Holder of which only %s is known is zero", some.Type().Field(i).Name)
		}
	}
}
