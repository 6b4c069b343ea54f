package compatibility

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
)

// The recording's scripts are unchanged, and it imports nothing of the library.
func TestTheRecordingIsAsItWas(t *testing.T) {
	t.Parallel()
	if err := hf1.Verify(); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob("hf1/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if strings.Contains(i.Path.Value, "holdfast") {
				t.Errorf("%s imports %s", file, i.Path.Value)
			}
		}
	}
}
