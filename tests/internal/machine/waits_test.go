package machine

import (
	"fmt"
	"os"
	"path/filepath"
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
	w := &waits{proc: string(s), pid: "1"}
	w.begin()
	began := time.Now()
	for _, c := range []struct {
		pid, tid int
		waited   time.Duration
		children string
		want     time.Duration
		process  string
	}{
		{1, 1, time.Minute + starved - 1, "", 0, ""},
		{1, 1, time.Minute + 2*starved - 1, "", starved, "name1 (process 1)"},
		{1, 2, 2*time.Minute + starved/2, "3", starved, "name1 (process 1)"},
		{3, 3, 2 * time.Second, "4", 2 * time.Second, "name3 (process 3)"},
		{4, 5, 3 * time.Second, "", 3 * time.Second, "name5 (process 4)"}, // a new process of a descendant
	} {
		s.thread(t, c.pid, c.tid, c.waited, c.children)
		w.begin()
		if got := w.end(began); got.by != c.want || got.process != c.process {
			t.Errorf("after %d of %d has waited for %v: %+v; want %v of %s", c.tid, c.pid, c.waited, got, c.want, c.process)
		}
	}
	if got := w.end(time.Now()); got.by != 0 {
		t.Errorf("a wait from before counts: %+v", got)
	}
	w.begin()
	got := w.end(began)
	if got.by != 0 {
		t.Errorf("a wait from before is counted again: %+v", got)
	}
	got = wait{by: starved, process: "name5 (process 4)"}
	if want := "; name5 (process 4) could run, and waited for a processor for 750ms"; got.String() != want {
		t.Errorf("%q; want %q", got, want)
	}
	got.by--
	if got.String() != "" {
		t.Errorf("%q", got)
	}
}
