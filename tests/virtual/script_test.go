package virtual

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// As on a real server, a key does not expire while a script runs. Otherwise a script that has read the key
// would write the remaining time, and leave the key without an expiry.
func TestKeysDoNotExpireWithinAScript(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "embedded", Dialer: holdfasttest.Run(t).Dial, ReadTimeout: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	const waits = `
redis.call('SET', KEYS[1], 'v', 'PX', 20)
for i = 1, tonumber(ARGV[1]) do
end
return redis.call('GET', KEYS[1]) or 'gone'`
	for loops, took := 1_000_000, time.Duration(0); took < 50*time.Millisecond; loops *= 2 {
		began := time.Now()
		if got, err := rdb.Eval(t.Context(), waits, []string{"k"}, loops).Result(); got != "v" {
			t.Fatalf("after %s in a script the key is %v, %v", time.Since(began), got, err)
		}
		took = time.Since(began)
	}
	time.Sleep(50 * time.Millisecond)
	if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("it has not expired after the script")
	}
}
