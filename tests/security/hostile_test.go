package security

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// hostileValues are values that a program could write into a lock's key.
var hostileValues = []string{
	`hf2:t:7:1700000000000:0:{"o":"\u001b[2J\u001b]0;owned\u0007","h":"\u009b31m","p":-1,"m":{"\u202e":"\u2066x","` + "\x7f" + `":""}}`,
	`hf2:t:7:1700000000000:0:{"o":"x (pid 1 on y) for good: ` + "\r\n" + `holdfast: released","h":"\n"}+`,
	"hf2:t:7:1700000000000:0:{\"o\":\"\xff\xfe\xc0\x80\",\"h\":\"\xed\xa0\x80\"}",
	`hf2:t:7:1700000000000:0:{"o":"` + strings.Repeat("A", 5_000_000) + `"}`,
	`hf2:t:7:1700000000000:0:` + strings.Repeat("[", 1_000_000),
	`hf2:t:7:1700000000000:0:{"o":{"o":1},"p":1e999}`,
	`hf2:t:18446744073709551615:9223372036854775807:0:{"o":"x"}`,
	`hf2:t:1:-9223372036854775808:0:{}`,
	"hf2:::::", "hf2:", "+", "", "\x00", strings.Repeat("\x1b", 100_000),
	"hf2:" + strings.Repeat("t", 1_000_000) + ":1:1:0:{}",
	`hf2:t:7:1700000000000:99999999999999999999@99999999999999999999:{"o":"x"}+`,
}

// Fault: Others write hostile text into what people are shown. It misleads neither terminals nor people, and locks
// work whatever it contains.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	b := backend.One(t) // every server treats them as bytes
	c := b.Client(t, &unhurried)
	rdb := b.Redis(t)
	ctx := t.Context()
	for i, value := range hostileValues {
		for _, exact := range []bool{false, true} {
			name := fmt.Sprint("h", i)
			l, key := c.Mutex(name), "holdfast:{"+name+"}"
			if exact {
				key = "shared-" + name
				l = c.MutexKey(key)
			}
			expect.OK(t, rdb.Set(ctx, key, value, time.Minute).Err())
			_, err := l.TryAcquire(ctx)
			var held *holdfast.HeldError
			if !errors.As(err, &held) {
				t.Errorf("%.60q: %v", value, err)
				continue
			}
			presentable(t, "TryAcquire", err)
			h, err := backend.HolderOf(ctx, l)
			if err != nil {
				t.Errorf("%.60q: Holder: %v", value, err)
			}
			expect.AtMost(t, fmt.Sprintf("%.60q: bytes of the holder", value), len(h.Identity)+len(h.Host)+len(fmt.Sprint(h.Meta)), 2048)
			expect.Err(t, fmt.Sprintf("%.60q: as JSON", value), expect.ErrOf(json.Marshal(h)), nil)
			expect.Equal(t, "the value", rdb.Get(ctx, key).Val(), value)
			// A lock with a waiter may be marked, and is acquired when the value is gone.
			next := backend.Start(t, l)
			backend.Waiters(t, l, 1)
			rdb.Del(ctx, key)
			if lease, err := l.TryAcquire(ctx); err == nil {
				backend.Release(t, lease)
			}
			backend.Release(t, backend.Receive(t, next))
		}
	}
}

// A server that does not know a command answers with its arguments: for EVALSHA, a token; for AUTH, the
// password. Operators rename commands to hide them.
func TestArgumentsThatAServerRepeatsAreNotShown(t *testing.T) {
	s := server.Alone(t, server.Conf("rename-command", `EVALSHA ""`), server.Conf("rename-command", `EVAL ""`))
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Do(t.Context(), "EVALSHA", "x", "3", "k", "the-token").Err(); err == nil || !strings.Contains(err.Error(), "the-token") {
		t.Fatalf("the server does not repeat arguments: %v", err)
	}
	c, err := holdfastgoredis.New(rdb, &unhurried)
	expect.OK(t, err)
	backend.CloseWith(t, c)
	_, err = c.Mutex("a").TryAcquire(t.Context())
	expect.Err(t, "the error", err, holdfast.ErrUnsupported)
	for e := err; e != nil; {
		for _, text := range printed(e) {
			expect.Lacks(t, "what is shown", text, "holdfast:{a}")
		}
		var se *holdfast.ServerError
		if !errors.As(e, &se) {
			break
		}
		e = se.Err
	}
}

// printed returns a value in all the ways in which values are printed and logged.
func printed(v any) []string {
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if _, isErr := v.(error); isErr && (verb == "%#v" || verb == "%d" || verb == "%x") {
			continue // these show what the value is made of
		}
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, []any{v}), fmt.Sprintf(verb, struct{ V any }{v}))
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})).Debug("m", "v", v, "group", slog.GroupValue(slog.Any("v", v)))
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v)
	if text, err := json.Marshal(v); err == nil {
		texts = append(texts, string(text))
	}
	return append(texts, log.String())
}

// No token, channel of a client or password appears when values of the library are printed, or in its errors.
func TestSecretsAreNotPrinted(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const canary, user = "k4n/rie@:%", "canary-user"
		expect.OK(t, expect.ErrOf(b.Server.Do("ACL", "SETUSER", user, "on", ">"+canary, "~*", "&*", "+@all")))
		rdb := b.Redis(t, func(o *redis.Options) { o.Username, o.Password = user, canary })
		d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
		// A server that has gone is given up after 3s; one that answers is waited for.
		c := expect.Of(holdfast.New(d, &holdfast.Config{CommandTimeout: unhurried.CommandTimeout, RetryTimeout: 3 * time.Second})).OK(t)
		backend.CloseWith(t, c)
		ctx := t.Context()
		plain := b.Redis(t)

		l := c.Mutex("a", holdfast.TTL(time.Minute))
		lease := backend.Acquire(t, l)
		other := b.Client(t, &unhurried).Mutex("a")
		waiting, leave := context.WithCancel(ctx)
		defer leave()
		gone := make(chan error, 1)
		go func() {
			_, err := other.Acquire(waiting)
			gone <- err
		}()
		mine, leaveToo := context.WithCancel(ctx)
		defer leaveToo()
		go func() { _, _ = c.Mutex("b-held").Acquire(mine) }()
		backend.Waiters(t, l, 1)

		secrets := []string{canary, "k4n%2Frie%40%3A%25", "k4n%2Frie@%3A%25", user}
		value, ok := wire.ParseValue(plain.Get(ctx, "holdfast:{a}").Val())
		if !ok || len(value.Token) != 22 {
			t.Fatalf("the holder's token is %q", value.Token)
		}
		secrets = append(secrets, value.Token)
		for _, member := range plain.ZRange(ctx, "holdfast:{a}:q", 0, -1).Val() {
			part := strings.Split(member, "\n")
			secrets = append(secrets, part[0], strings.TrimPrefix(part[2], "holdfast:c:"))
		}
		expect.Equal(t, "secrets", len(secrets), 7)
		_, heldErr := other.TryAcquire(ctx)
		holder, _ := backend.HolderOf(ctx, other)
		values := map[string]any{
			"client": c, "lock": l, "lease": lease, "driver": d, "holder": holder, "held": heldErr, "a lock's value": *l,
		}
		// These are errors of every kind, about this very lock.
		leave()
		<-gone
		plain.Set(ctx, "holdfast:{a}", "another's", 0)
		_, values["taken"] = lease.Extend(ctx, time.Second), lease.Err()
		values["release"] = lease.Release(ctx)
		plain.Del(ctx, "holdfast:{a}")
		plain.RPush(ctx, "holdfast:{a}", "x")
		_, values["wrong type"] = l.TryAcquire(ctx)
		plain.Del(ctx, "holdfast:{a}")
		plain.Do(ctx, "ACL", "SETUSER", user, "-set")
		_, values["no permission"] = l.TryAcquire(ctx)
		plain.Do(ctx, "ACL", "SETUSER", user, "resetpass")
		plain.Do(ctx, "CLIENT", "KILL", "USER", user)
		_, values["wrong password"] = l.TryAcquire(ctx)
		b.Server.Kill()
		_, values["unreachable"] = l.TryAcquire(ctx)

		for what, v := range values {
			if v == nil {
				t.Errorf("%s: nothing to print", what)
			}
			for _, text := range printed(v) {
				if strings.Contains(what, "permission") {
					// The server names the user that it refuses, and people need to know.
					text = strings.ReplaceAll(text, "User "+user, "")
				}
				for _, secret := range secrets {
					expect.Lacks(t, what, text, secret)
				}
			}
			if err, ok := v.(error); ok {
				presentable(t, what, err)
			}
		}
		for _, secret := range secrets {
			expect.Lacks(t, "go-redis's log", said.String(), secret)
		}
	})
}

// A printed driver does not show the options that it was made with.
func TestDriversDoNotShowPasswords(t *testing.T) {
	t.Parallel()
	const password = "kanarie-7531"
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Username: "zeisig", Password: password})
	t.Cleanup(func() { _ = rdb.Close() })
	for name, d := range map[string]drivertest.Driver{
		"go-redis": drivertest.Of(holdfastgoredis.NewDriver(rdb)),
		"rueidis":  drivertest.Of(holdfastrueidis.NewDriver(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, Username: "zeisig", Password: password})),
		"valkey":   drivertest.Of(holdfastvalkey.NewDriver(valkey.ClientOption{InitAddress: []string{"127.0.0.1:1"}, Username: "zeisig", Password: password})),
	} {
		for _, text := range printed(d) {
			if strings.Contains(text, password) || strings.Contains(text, hex.EncodeToString([]byte(password))) {
				t.Errorf("%s: %s", name, text)
			}
		}
		_ = d.Close()
	}
}
