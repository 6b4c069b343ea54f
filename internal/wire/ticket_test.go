package wire

import (
	"encoding/base64"
	"strings"
	"testing"
)

var sound = Ticket{Prefix: "holdfast:", Lock: "orders {7} ü", Token: "AAECAwQFBgcICQoLDA0ODw", Fence: 1795570765586025, Tombstone: 1795570769586025}

// A ticket survives being carried as text.
func TestTicketText(t *testing.T) {
	key := sound
	key.Exact, key.Tombstone = true, 0
	longest := sound
	longest.Prefix, longest.Lock, longest.Fence, longest.Tombstone = strings.Repeat("p", 512), strings.Repeat("n", 512), maxFence, MaxTime
	braces := sound
	braces.Lock = "a}{b"
	for _, want := range []Ticket{sound, key, longest, braces} {
		text := want.Text()
		if got, err := ParseTicket(text); err != nil || got != want {
			t.Errorf("ParseTicket(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Errorf("the text %q has characters that shells or addresses change", text)
		}
	}
}

// What is not the whole text of a ticket is refused, and not shown in the error.
func TestTicketTextIsStrict(t *testing.T) {
	text := sound.Text()
	for n := range len(text) {
		if _, err := ParseTicket(text[:n]); err == nil {
			t.Errorf("accepted the first %d bytes of %d", n, len(text))
		}
	}
	written := func(fields string) string { return ticketBegin + base64.RawURLEncoding.EncodeToString([]byte(fields)) }
	const token, lock = "AAECAwQFBgcICQoLDA0ODw", "holdfast:{orders}"
	if _, err := ParseTicket(written("name " + token + " 7 0 " + lock)); err != nil {
		t.Fatal(err) // the others differ from this one in one place
	}
	for what, bad := range map[string]string{
		"another version":     strings.Replace(text, "hf2t.", "hf1t.", 1),
		"a line's end":        text + "\n",
		"padding":             text + "=",
		"another kind":        written("rw " + token + " 7 0 " + lock),
		"no kind":             written(token + " 7 0 " + lock),
		"a short token":       written("name " + token[:21] + " 7 0 " + lock),
		"a long token":        written("name " + token + "A 7 0 " + lock),
		"a colon in it":       written("name " + token[:20] + "a: 7 0 " + lock),
		"no fence":            written("name " + token + " 0 0 " + lock),
		"a negative fence":    written("name " + token + " -7 0 " + lock),
		"a fence with a sign": written("name " + token + " +7 0 " + lock),
		"a zero before it":    written("name " + token + " 07 0 " + lock),
		"a huge fence":        written("name " + token + " 9007199254740993 0 " + lock),
		"an earlier time":     written("name " + token + " 7 -1 " + lock),
		"a later time":        written("name " + token + " 7 9000000000000001 " + lock),
		"no prefix":           written("name " + token + " 7 0 {orders}"),
		"a brace in it":       written("name " + token + " 7 0 hold}fast:{orders}"),
		"no name":             written("name " + token + " 7 0 holdfast:{}"),
		"no braces":           written("name " + token + " 7 0 holdfast:orders"),
		"an open brace":       written("name " + token + " 7 0 holdfast:{orders"),
		"something behind":    written("name " + token + " 7 0 " + lock + " "),
		"control characters":  written("name " + token + " 7 0 holdfast:{or\nders}"),
		"broken UTF-8":        written("name " + token + " 7 0 holdfast:{or\xffders}"),
		"a long name":         written("name " + token + " 7 0 holdfast:{" + strings.Repeat("n", 513) + "}"),
		"a long prefix":       written("name " + token + " 7 0 " + strings.Repeat("p", 513) + "{orders}"),
		"a long text":         written("name " + token + " 7 0 holdfast:{" + strings.Repeat("n", 5000) + "}"),
		"nothing":             "",
	} {
		got, err := ParseTicket(bad)
		if err != ErrTicket {
			t.Errorf("%s: ParseTicket = %+v, %v; want ErrTicket", what, got, err)
		}
	}
}

func FuzzTicket(f *testing.F) {
	f.Add(sound.Text())
	f.Add(ticketBegin + base64.RawURLEncoding.EncodeToString([]byte("key AAECAwQFBgcICQoLDA0ODw 7 0 p{k}")))
	f.Add(ticketBegin)
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := ParseTicket(text)
		if err == nil && (ticket.Text() != text || !ticket.sound() || len(text) > maxTicket) {
			t.Errorf("%q was read as %+v", text, ticket)
		}
	})
}
