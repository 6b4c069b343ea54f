package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// system is a folder with what Linux says of threads.
type system string

func (s system) thread(t *testing.T, pid, tid int, waited time.Duration, children string) {
	t.Helper()
	folder := filepath.Join(string(s), fmt.Sprint(pid), "task", fmt.Sprint(tid))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"schedstat": fmt.Sprintf("%d %d 7\n", time.Hour, waited), "comm": fmt.Sprintf("name%d\n", tid), "children": children,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheLongestWaitForAProcessor(t *testing.T) {
	s := system(t.TempDir())
	s.thread(t, 1, 1, time.Minute, "")
	s.thread(t, 1, 2, 2*time.Minute, "3 9") // 9 has ended
	s.thread(t, 3, 3, 0, "")
	w := newWaits(string(s), 1)
	if w.longest.by != 0 {
		t.Errorf("what was before counts: %v", w.longest)
	}
	for _, c := range []struct {
		pid, tid int
		waited   time.Duration
		children string
		want     wait
	}{
		{1, 1, time.Minute + 500*time.Millisecond, "", wait{500 * time.Millisecond, "name1 (process 1)"}},
		{1, 2, 2*time.Minute + 400*time.Millisecond, "3", wait{500 * time.Millisecond, "name1 (process 1)"}},
		{1, 1, time.Minute + time.Second, "", wait{500 * time.Millisecond, "name1 (process 1)"}},
		{3, 3, 2 * time.Second, "4", wait{2 * time.Second, "name3 (process 3)"}},
		{4, 5, 3 * time.Second, "", wait{3 * time.Second, "name5 (process 4)"}}, // a new process of a descendant
	} {
		s.thread(t, c.pid, c.tid, c.waited, c.children)
		if w.look(); w.longest != c.want {
			t.Errorf("after %d of %d has waited for %v: %+v; want %+v", c.tid, c.pid, c.waited, w.longest, c.want)
		}
	}
	if got := w.end(); !strings.Contains(got.String(), "name5 (process 4) could run, and waited for a processor for 3s") {
		t.Errorf("%q", got)
	}
	if got := (wait{starved - 1, "x"}).String(); got != "" {
		t.Errorf("%q", got)
	}
}
