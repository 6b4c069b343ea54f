package holdfast_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/transfer"
)

func detach(t *testing.T, lease *holdfast.Lease, ttl time.Duration) transfer.Ticket {
	t.Helper()
	ticket, err := transfer.Detach(t.Context(), lease, ttl)
	must(t, err)
	return ticket
}

func TestTicketsThatAreNone(t *testing.T) {
	s := inParallel(t)
	c, stranger := s.client(), newSpace(t).client()
	ticket := detach(t, acquire(t, c.Mutex("m")), time.Hour)
	var none transfer.Ticket
	for what, ask := range map[string]func() error{
		"Adopt of no ticket":         func() error { _, err := transfer.Adopt(t.Context(), c, none); return err },
		"Adopt under another prefix": func() error { _, err := transfer.Adopt(t.Context(), stranger, ticket); return err },
		"Adopt with a short TTL": func() error {
			_, err := transfer.Adopt(t.Context(), c, ticket, holdfast.TTL(time.Millisecond))
			return err
		},
		"Extend of no ticket":             func() error { return transfer.Extend(t.Context(), c, none, time.Minute) },
		"Extend of one of another prefix": func() error { return transfer.Extend(t.Context(), stranger, ticket, time.Minute) },
		"Extend for no time":              func() error { return transfer.Extend(t.Context(), c, ticket, 0) },
		"Extend for too long":             func() error { return transfer.Extend(t.Context(), c, ticket, 25*time.Hour) },
		"the text of no ticket":           func() error { _, err := none.MarshalText(); return err },
	} {
		err := ask()
		want(t, what, err, holdfast.ErrInvalid)
		equal(t, what+" names it", strings.Contains(err.Error(), "transfer.Extend by"), strings.HasPrefix(what, "Extend for"))
	}
	if none.Name() != "" || none.String() != "transfer.Ticket(none)" {
		t.Errorf("no ticket is %s, for %q", none, none.Name())
	}
	cutOff, err := ticket.MarshalText()
	must(t, err)
	for _, text := range []string{"", "x", strings.Repeat("secret", 1000), string(cutOff[:len(cutOff)-4])} {
		err := none.UnmarshalText([]byte(text))
		want(t, "a text that is no ticket", err, holdfast.ErrInvalid)
		if none != (transfer.Ticket{}) || len(text) > 5 && strings.Contains(fmt.Sprint(err), text[5:min(25, len(text))]) {
			t.Errorf("the text becomes %v; the error shows it: %v", none, err)
		}
	}
	lease, err := transfer.Adopt(t.Context(), c, ticket)
	must(t, err)
	release(t, lease)
	s.cleaned()
}

// However a ticket is printed or logged, its secret is not shown. As text it is whole.
func TestPrintedTicketsAreNoSecret(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	lease := acquire(t, c.Mutex("m"))
	token := strings.Split(s.do("GET", s.key("m")), ":")[1]
	ticket := detach(t, lease, time.Hour)
	encoded, err := json.Marshal(map[string]any{"ticket": ticket})
	var decoded struct{ Ticket transfer.Ticket }
	if err != nil || json.Unmarshal(encoded, &decoded) != nil {
		t.Fatalf("%s, %v", encoded, err)
	}
	type job struct {
		carried transfer.Ticket
		Public  *transfer.Ticket
	}
	var shown bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
		slog.New(h).Info("carry", "ticket", ticket, slog.Group("g", "ticket", &ticket))
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%p"} {
		for _, v := range []any{ticket, &ticket, job{ticket, &ticket}, &job{ticket, &ticket}} {
			fmt.Fprintf(&shown, verb+"\n", v)
		}
	}
	for _, secret := range []string{token, fmt.Sprintf("%x", token), string(encoded[16:36])} {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("a ticket's secret, %s, is shown:\n%s", secret, &shown)
		}
	}
	equal(t, "it is printed as", ticket.String(), `transfer.Ticket("m")`)
	adopted, err := transfer.Adopt(t.Context(), s.client(), decoded.Ticket)
	must(t, err)
	release(t, adopted)
}
