//go:build unix

package examples

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// importOf returns of which import a page of the catalog is; an error if it is of several.
func importOf(status int, page string) (which string, err error) {
	lines := strings.Split(strings.TrimSpace(page), "\n")
	if status != http.StatusOK || len(lines) != 8 {
		return "", fmt.Errorf("the answer %d:\n%s", status, page)
	}
	for i, line := range lines {
		_, of, _ := strings.Cut(line, "import ")
		if of == "" || i > 0 && of != which {
			return "", fmt.Errorf("a page that is not of one import:\n%s", page)
		}
		which = of
	}
	return which, nil
}

// A process dies in the middle of an import. Nobody sees the half of it, and a price that arrives late is refused.
func TestHalfAnImportIsNeverShown(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	slow := proxy.New(t, s.Addr())
	flags := []string{"-http", "127.0.0.1:0", "-takes", "1ms", "-age", "1ms"}
	first := start(t, "cache", append(flags, "-addr", slow.Addr())...)
	other := start(t, "cache", append(flags, "-addr", s.Addr())...)
	firstURL, otherURL := first.url(), other.url()
	before, err := importOf(send(t, "GET", otherURL))
	if err != nil {
		t.Fatal(err)
	}
	price := slow.Hold(proxy.Containing("\r\ncatalog:dates\r\n", "holdfast:mark:{catalog:dates}"), proxy.Hang)
	go func() { // it gets no page
		if resp, err := http.Get(firstURL); err == nil {
			_ = resp.Body.Close()
		}
	}()
	price.Wait(t)
	first.kill()
	after, err := importOf(send(t, "GET", otherURL))
	if err != nil || after == before {
		t.Errorf("after import %s the page is of import %q, %v", before, after, err)
	}
	if reply := price.Forward(t); !strings.HasPrefix(reply, "-STALE ") {
		t.Errorf("the late price is answered %q", reply)
	}
	other.interrupt()
}

// Two processes show the catalog while both import it again and again.
func TestPagesAreOfOneImport(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	type answer struct {
		status int
		page   string
		err    error
	}
	answers := make(chan answer)
	enough := make(chan struct{})
	get := func(url string) (a answer) {
		resp, err := http.Get(url)
		if err != nil {
			return answer{err: err}
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, string(page), err}
	}
	var readers sync.WaitGroup
	var processes []*process
	for range 2 {
		p := start(t, "cache", "-addr", s.Addr(), "-http", "127.0.0.1:0", "-takes", "8ms", "-age", "20ms")
		processes = append(processes, p)
		url := p.url()
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case answers <- get(url):
					case <-enough:
						return
					}
				}
			})
		}
	}
	stop := sync.OnceFunc(func() {
		close(enough)
		readers.Wait()
	})
	defer stop()
	imports := map[string]bool{}
	done := func() bool {
		return len(imports) >= 10 && strings.Contains(processes[0].String(), "imported") && strings.Contains(processes[1].String(), "imported")
	}
	for limit := time.After(time.Minute); !done(); {
		select {
		case a := <-answers:
			which, err := importOf(a.status, a.page)
			if a.err != nil || err != nil {
				t.Fatal(a.err, err)
			}
			imports[which] = true
		case <-limit:
			t.Fatalf("only %d imports in a minute", len(imports))
		}
	}
	stop()
	for _, p := range processes {
		p.interrupt()
	}
}
