package documents

import (
	"os"
	"path/filepath"
	"testing"
)

// Readers look things up in these pages. What does not fit belongs into a decision record, or beside the code.
func TestReferenceIsShort(t *testing.T) {
	const most = 10 << 10
	for _, name := range []string{"PERFORMANCE.md", "RELIABILITY.md", "SECURITY.md"} {
		info, err := os.Stat(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= most {
			t.Errorf("docs/%s has %d bytes; it is to stay below %d: the reasons belong into docs/decisions", name, info.Size(), most)
		}
	}
}
