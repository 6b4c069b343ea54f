//go:build unix

package examples

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/postgres"
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

// cluster is the PostgreSQL that the tests share.
var cluster = sync.OnceValues(func() (*postgres.Server, error) {
	s, err := postgres.Start()
	if err == nil {
		removeAtEnd(s.Stop)
	}
	return s, err
})

// orders creates a database with the tables of the example, and some orders.
func orders(t *testing.T, name string) (dsn string, db *sql.DB) {
	t.Helper()
	s, err := cluster()
	if errors.Is(err, postgres.ErrMissing) {
		t.Skipf("SKIPPED, THE EXAMPLE invoices IS NOT TESTED: %v", err)
	}
	expect.OK(t, err)
	expect.OK(t, s.Create(t.Context(), name))
	dsn = s.DSN(name, nil)
	if db, err = sql.Open("pgx", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	schema := expect.Of(os.ReadFile(filepath.Join("..", "..", "examples", "invoices", "schema.sql"))).OK(t)
	expect.OK(t, expect.ErrOf(db.ExecContext(t.Context(), string(schema))))
	return dsn, db
}

func query(t *testing.T, db *sql.DB, text string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// complete waits until every order has an invoice, and checks the numbers.
func complete(t *testing.T, db *sql.DB) {
	t.Helper()
	backend.Eventually(t, "every order has an invoice", func() bool {
		return query(t, db, `SELECT count(*) FROM orders WHERE id NOT IN (SELECT order_id FROM invoices)`) == 0
	})
	expect.Equal(t, "gaps in the numbers", query(t, db, `SELECT count(*) - max(number) FROM invoices`), 0)
	expect.Equal(t, "invoices whose fence is not above that of the one before", query(t, db, `SELECT count(*) FROM (SELECT fence, lag(fence) OVER (ORDER BY number) AS before FROM invoices) AS i WHERE fence <= before`), 0)
}

// A worker dies while it prints an invoice. The others write all of them, and leave no gap.
func TestInvoicesHaveNoGaps(t *testing.T) {
	s := server.Alone(t)
	dsn, db := orders(t, "gaps")
	first := start(t, "invoices", "-addr", s.Addr(), "-db", dsn, "-print", "1h")
	first.says("invoice 1: printing")
	var others []*process
	for range 2 {
		others = append(others, start(t, "invoices", "-addr", s.Addr(), "-db", dsn, "-print", "1ms"))
	}
	first.kill()
	complete(t, db)
	for _, p := range others {
		p.interrupt()
	}
}

// Fault: A holder is late, and a later one has raised the mark in PostgreSQL between its Raise and its write. The write is refused.
//
// The invoice's number is free, and its order has none: only the fence tells that it is late.
func TestALateInvoiceIsRefused(t *testing.T) {
	s := server.Alone(t)
	dsn, db := orders(t, "late")
	// Workers cannot read orders until the transaction ends.
	tx := expect.Of(db.BeginTx(t.Context(), nil)).OK(t)
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	expect.OK(t, expect.ErrOf(tx.ExecContext(t.Context(), `LOCK TABLE orders IN ACCESS EXCLUSIVE MODE`)))
	worker := start(t, "invoices", "-addr", s.Addr(), "-db", dsn, "-print", "1ms")
	backend.Eventually(t, "the worker has raised the mark", func() bool {
		return query(t, db, `SELECT count(*) FROM holdfast_marks`) == 1
	})
	expect.OK(t, expect.ErrOf(db.ExecContext(t.Context(), `UPDATE holdfast_marks SET fence = fence + 1, owner = 'a later worker'`)))
	expect.OK(t, tx.Commit())
	worker.says("invoice 1: printing, for order 1,")
	worker.says("nothing written: invoice 1:")
	complete(t, db)
	worker.interrupt()
}

// Three calls of one process are under way when it dies. The other process calls when the permits have come back, and no sooner.
func TestPermitsOfADeadProcessComeBack(t *testing.T) {
	t.Parallel()
	b := &backend.Backend{Server: server.Start(t, server.One(t))}
	calls := make(chan string, 1000) // the path of each, as it comes
	answer := make(chan struct{})
	var mu sync.Mutex
	var now, most int
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		select {
		case calls <- r.URL.Path:
		default: // enough of them
		}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(api.Close)
	come := func(path string) {
		t.Helper()
		for range 3 {
			select {
			case got := <-calls:
				if got != path {
					t.Fatalf("a call of %s, not of %s", got, path)
				}
			case <-time.After(time.Minute):
				t.Fatalf("no call of %s", path)
			}
		}
	}

	first := start(t, "ratelimit", "-addr", b.Server.Addr(), "-api", api.URL+"/first")
	come("/first")
	second := start(t, "ratelimit", "-addr", b.Server.Addr(), "-api", api.URL+"/second")
	permit := b.Client(t, nil).Semaphore("ratelimit", 3).Permits(1)
	backend.Waiters(t, permit, 2) // both processes have callers without a permit
	select {
	case path := <-calls:
		t.Errorf("a call too many, of %s", path)
	default:
	}
	first.kill()
	come("/second")
	close(answer)
	second.says("/second: 200 OK")
	second.interrupt()
	mu.Lock()
	defer mu.Unlock()
	expect.Equal(t, "calls at a time", most, 3)
}

// One scheduler leads at a time: it hands over when it is interrupted, and is replaced when it is paused. What it ordered before is
// refused if it arrives late.
func TestSchedulersReplaceEachOther(t *testing.T) {
	s := server.Alone(t)
	worker := start(t, "scheduler", "-serve", "127.0.0.1:0")
	url := worker.url()
	candidate := func(ttl string) *process {
		return start(t, "scheduler", "-addr", s.Addr(), "-worker", url, "-every", "10ms", "-ttl", ttl)
	}
	// leads waits until a process leads and the worker hears of it, and returns the fence.
	leads := func(p *process) string {
		t.Helper()
		fence := p.says("leading, under fence ")
		worker.says("fence " + fence)
		return fence
	}

	first := candidate("10m") // after it, somebody leads soon only if it gives the lock back
	leads(first)
	second := candidate("5s")
	second.says("standing for election")
	first.interrupt()
	stale := leads(second)

	third := candidate("5s")
	third.says("standing for election")
	second.signal(syscall.SIGSTOP)
	leads(third)
	status, text := send(t, "POST", url+"/jobs/report", fence.HeaderFence, stale, fence.HeaderLock, "scheduler", fence.HeaderOwner, "late")
	if status != http.StatusPreconditionFailed {
		t.Errorf("a late order is answered %d: %s", status, text)
	}
	worker.says("refused: ")
	second.signal(syscall.SIGCONT)
	second.says("no longer leading")
	third.kill()
	second.interrupt()
	worker.interrupt()
}
