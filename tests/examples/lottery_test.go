//go:build unix

package examples

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func send(t *testing.T, method, url string, header ...string) (status int, text string) {
	t.Helper()
	r := expect.Of(http.NewRequestWithContext(t.Context(), method, url, nil)).OK(t)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := expect.Of(http.DefaultClient.Do(r)).OK(t)
	defer resp.Body.Close()
	body := expect.Of(io.ReadAll(resp.Body)).OK(t)
	return resp.StatusCode, strings.TrimSpace(string(body))
}

// Fault: A process of a web service dies in the middle of a request. Others answer 409 until its lease is over, and then do its work.
func TestALotteryOutlivesAProcess(t *testing.T) {
	s := server.Alone(t)
	first := start(t, "lottery", "-addr", s.Addr(), "-http", "127.0.0.1:0", "-spin", "1h")
	other := start(t, "lottery", "-addr", s.Addr(), "-http", "127.0.0.1:0", "-spin", "1ms", "-wait", "50ms")
	const day = "/draws/2026-12-24"
	url := first.url()
	go func() { // it gets no answer
		if resp, err := http.Post(url+day, "", nil); err == nil {
			_ = resp.Body.Close()
		}
	}()
	first.says("the drum turns")
	url = other.url()
	if status, text := send(t, "GET", url+day); status != http.StatusNotFound {
		t.Errorf("GET during the draw is answered %d: %s", status, text)
	}
	status, text := send(t, "POST", url+day)
	if status != http.StatusConflict || !strings.Contains(text, "(pid "+strconv.Itoa(first.Cmd.Process.Pid)) {
		t.Errorf("POST during the draw is answered %d: %s", status, text)
	}
	first.kill()
	backend.Eventually(t, "the other process draws", func() bool {
		status, text = send(t, "POST", url+day)
		if status != http.StatusOK && status != http.StatusConflict {
			t.Fatalf("POST after the first process died is answered %d: %s", status, text)
		}
		return status == http.StatusOK
	})
	if _, again := send(t, "POST", url+day); again != text {
		t.Errorf("the number was %s, and is %s", text, again)
	}
	if status, _ := send(t, "POST", url+"/draws/tomorrow"); status != http.StatusBadRequest {
		t.Errorf("a day that is none is answered %d", status)
	}

	s.Kill()
	if status, text := send(t, "POST", url+day); status != http.StatusServiceUnavailable {
		t.Errorf("POST without a server is answered %d: %s", status, text)
	}
	other.interrupt()
}

// Fault: A write to Redis is under way for so long that the next holder has written meanwhile. The write is refused.
func TestALateNumberIsRefused(t *testing.T) {
	s := server.Alone(t)
	slow := proxy.New(t, s.Addr())
	first := start(t, "lottery", "-addr", slow.Addr(), "-http", "127.0.0.1:0", "-spin", "1ms")
	other := start(t, "lottery", "-addr", s.Addr(), "-http", "127.0.0.1:0", "-spin", "1ms", "-wait", "1m")
	const day, key = "/draws/2026-12-24", "lottery:2026-12-24"
	number := slow.Hold(proxy.Containing("\r\n"+key+"\r\n", "holdfast:mark:{"+key+"}"), proxy.Cut)
	if status, text := send(t, "POST", first.url()+day); status != http.StatusInternalServerError {
		t.Errorf("a draw whose write got no answer is answered %d: %s", status, text)
	}
	url := other.url()
	status, drawn := send(t, "POST", url+day)
	if status != http.StatusOK {
		t.Fatalf("the other process answers %d: %s", status, drawn)
	}
	expect.Begins(t, "the late write's answer", number.Forward(t), "-STALE ")
	if _, text := send(t, "GET", url+day); text != drawn {
		t.Errorf("the number was %s, and is %s", drawn, text)
	}
	first.interrupt()
	other.interrupt()
}
