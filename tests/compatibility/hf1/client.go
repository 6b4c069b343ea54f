// Package hf1 is a client of Holdfast's protocol as it was on 25 November 2026, before the first release: the
// version hf1 of values and messages. It was written from the docs/PROTOCOL.md of that day, has the scripts of
// that day, and knows nothing of the library. The README beside it says why it must not be changed.
//
// A test drives it, one request at a time: it renews nothing, repeats nothing and looks at nothing by itself. A reply,
// a message or a key with anything that the protocol does not allow fails the test.
package hf1

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options say how a client locks. The zero value is a client of the default prefix outside Strict mode.
type Options struct {
	Prefix string // "holdfast:" if it is empty
	Owner  string // "old" if it is empty
	// Quarantine makes the client Strict: QUARANTINE+LAG, in ms.
	Quarantine string
	// Node makes the client, which is Strict, one of a node of a quorum.
	Node bool
}

// Client is a client of one server, as a process has it. It is for one goroutine.
type Client struct {
	Info Info

	tb      testing.TB
	rdb     redis.UniversalClient
	o       Options
	id      string
	ears    map[string]*Ear // by channel
	cluster bool            // the server runs in Cluster mode
}

// New returns a client. rdb sends each request once: its MaxRetries is -1.
func New(tb testing.TB, rdb redis.UniversalClient, o Options) *Client {
	o.Prefix = cmp.Or(o.Prefix, "holdfast:")
	info := Info{Owner: cmp.Or(o.Owner, "old"), Host: "host:1", PID: 4711, Meta: map[string]string{"note": "a:b+"}}
	cluster := strings.Contains(hello(tb, rdb), "mode cluster")
	return &Client{Info: info, tb: tb, rdb: rdb, o: o, cluster: cluster, id: NewToken(), ears: map[string]*Ear{}}
}

// hello returns the server's reply to HELLO, as "FIELD VALUE,...".
func hello(tb testing.TB, rdb redis.UniversalClient) string {
	tb.Helper()
	reply, err := rdb.Do(tb.Context(), "HELLO").Result()
	if err != nil {
		tb.Fatal(err)
	}
	var text strings.Builder
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for field, value := range reply {
			fmt.Fprintf(&text, "%v %v,", field, value)
		}
	case []any:
		for i := 1; i < len(reply); i += 2 {
			fmt.Fprintf(&text, "%v %v,", reply[i-1], reply[i])
		}
	}
	return text.String()
}

// NewToken returns 128 random bits as text.
func NewToken() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// flags returns the flags of every script.
func (c *Client) flags() (flags string) {
	if c.cluster {
		flags += "c"
	}
	if c.o.Quarantine != "" {
		flags += "s" + c.o.Quarantine
	}
	return flags
}

// marked appends the incarnation mark to the keys of a script that reads it in Strict mode.
func (c *Client) marked(keys []string) []string {
	if c.o.Quarantine == "" {
		return keys
	}
	return append(keys[:len(keys):len(keys)], c.Mark())
}

// Mark is the key of the incarnation mark.
func (c *Client) Mark() string { return c.o.Prefix + "incarnation" }

// Init sends init. flags are "f", "l" or none.
func (c *Client) Init(flags string) Reply {
	c.tb.Helper()
	return c.send("init", []string{c.Mark()}, c.flags()+flags, "x")
}

// Now is the server's time, in µs.
func (c *Client) Now() int64 {
	c.tb.Helper()
	now, err := c.rdb.Time(c.tb.Context()).Result()
	if err != nil {
		c.tb.Fatal(err)
	}
	return now.UnixMicro()
}

// patience is how long after it was sent a request may be carried out.
const patience = time.Minute

func (c *Client) notAfter() int64 { return c.Now() + patience.Microseconds() }

// send sends a script, and repeats it after AGAIN.
func (c *Client) send(script string, keys []string, args ...any) Reply {
	c.tb.Helper()
	for {
		text := c.evaluate(script, keys, args)
		if !strings.HasPrefix(text, "error AGAIN") {
			return parse(c.tb, script, fmt.Sprintf("%s of %q", script, keys[0]), text)
		}
	}
}

func (c *Client) evaluate(script string, keys []string, args []any) string {
	c.tb.Helper()
	s, ok := scripts[script]
	if !ok {
		c.tb.Fatalf("%s is not among the recorded scripts", script)
	}
	ctx := c.tb.Context()
	text, err := c.rdb.EvalSha(ctx, s.digest, keys, args...).Text()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		text, err = c.rdb.Eval(ctx, s.text, keys, args...).Text()
	}
	if err != nil {
		c.tb.Fatalf("%s of %q: %v", script, keys[0], err)
	}
	return text
}

// Message is a message of the protocol.
type Message struct {
	Word  string // grant, redisson, rw, sem, own, bar, standby, changed
	Token string
	Now   int64 // server time, µs
	Claim int64 // ms
	Fence int64
	Lock  string // its key
	Due   int64  // server time, µs
}

// parseMessage reads a message. It is false for one that the protocol tells clients to ignore.
func parseMessage(text string) (m Message, ok bool) {
	f := strings.SplitN(text, " ", 7)
	if len(f) < 3 || f[0] != "hf1" {
		return m, false
	}
	m.Word = f[1]
	numbers := map[*int64]string{}
	switch {
	case m.Word == "changed" && len(f) == 3:
		numbers[&m.Now] = f[2]
	case m.Word == "standby" && len(f) == 5:
		m.Token = f[2]
		numbers[&m.Now], numbers[&m.Due] = f[3], f[4]
	case len(f) == 7 && strings.Contains(" grant redisson rw sem own bar ", " "+m.Word+" "):
		m.Token, m.Lock = f[2], f[6]
		numbers[&m.Now], numbers[&m.Claim], numbers[&m.Fence] = f[3], f[4], f[5]
	default:
		return m, false
	}
	for field, digits := range numbers {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return m, false
		}
		*field = n
	}
	return m, true
}

// Ear is a subscription, which lasts until the test ends.
type Ear struct {
	tb      testing.TB
	channel string
	texts   chan string // closed when the subscription has ended
	kept    []Message   // came before one that was awaited
}

// Hear subscribes to a channel, once.
func (c *Client) Hear(channel string) *Ear {
	c.tb.Helper()
	if e := c.ears[channel]; e != nil {
		return e
	}
	subscribe := c.rdb.Subscribe
	if c.cluster {
		subscribe = c.rdb.SSubscribe
	}
	ctx := context.WithoutCancel(c.tb.Context())
	subscription := subscribe(ctx, channel)
	if _, err := subscription.Receive(ctx); err != nil {
		c.tb.Fatalf("subscribing to %s: %v", channel, err)
	}
	// Messages are read at once: the embedded server waits until they are.
	e := &Ear{tb: c.tb, channel: channel, texts: make(chan string, 10_000)}
	go func() {
		defer close(e.texts)
		for {
			m, err := subscription.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			e.texts <- m.Payload
		}
	}()
	c.tb.Cleanup(func() {
		_ = subscription.Close()
		for range e.texts {
		}
	})
	c.ears[channel] = e
	return e
}

// Await returns the first message that matches, and keeps those before it. It fails the test after a minute.
func (e *Ear) Await(what string, match func(Message) bool) Message {
	e.tb.Helper()
	for i, m := range e.kept {
		if match(m) {
			e.kept = append(e.kept[:i:i], e.kept[i+1:]...)
			return m
		}
	}
	limit := time.After(time.Minute)
	for {
		select {
		case text, open := <-e.texts:
			if !open {
				e.tb.Fatalf("the subscription to %s has ended", e.channel)
			}
			m, ok := parseMessage(text)
			if ok && match(m) {
				return m
			}
			if ok {
				e.kept = append(e.kept, m)
			}
		case <-limit:
			e.tb.Fatalf("%s: no message on %s; others: %+v", what, e.channel, e.kept)
		}
	}
}

// Changed waits for the message to the watchers of a lock.
func (e *Ear) Changed() Message {
	e.tb.Helper()
	return e.Await("a change", func(m Message) bool { return m.Word == "changed" })
}

// Grant waits for the message that hands a lock to a token.
func (e *Ear) Grant(l *Lock, token string) Message {
	e.tb.Helper()
	m := e.Await("a grant", func(m Message) bool { return m.Token == token && m.Word != "standby" })
	if m.Word != l.word() || m.Lock != l.Key() {
		e.tb.Fatalf("the grant of %s is %+v", l.Key(), m)
	}
	return m
}

// Handed waits for the message that hands a lock to a token, or, of an exact key that was held for 50 ms, tells it to
// look after a gap.
func (e *Ear) Handed(l *Lock, token string) (m Message, gap bool) {
	e.tb.Helper()
	if strings.Contains(l.flags, "k") {
		m = e.Await("a grant, or a gap", func(m Message) bool { return m.Token == token })
		if m.Word == "standby" {
			return m, true
		}
		e.kept = append(e.kept, m)
	}
	return e.Grant(l, token), false
}

// StandBy waits for the message that tells a token when to look.
func (e *Ear) StandBy(token string) Message {
	e.tb.Helper()
	return e.Await("a standby", func(m Message) bool { return m.Token == token && m.Word == "standby" })
}
