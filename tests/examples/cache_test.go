//go:build unix

package examples

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
	s := server.Alone(t)
	slow := proxy.New(t, s.Addr())
	flags := []string{"-http", "127.0.0.1:0", "-takes", "1ms", "-age", "1ms"}
	first := start(t, "cache", append(flags, "-addr", slow.Addr())...)
	other := start(t, "cache", append(flags, "-addr", s.Addr())...)
	firstURL, otherURL := first.url(), other.url()
	before := expect.Of(importOf(send(t, "GET", otherURL))).OK(t)
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
