package virtual

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A key does not expire while a script runs, as it does not on a real server: a script that
// has read it would write what is left of it, without an expiry.
func TestKeysDoNotExpireWithinAScript(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "embedded", Dialer: holdfasttest.Run(t).Dial})
	t.Cleanup(func() { _ = rdb.Close() })
	const waits = `
redis.call('SET', KEYS[1], 'v', 'PX', 20)
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + t[2] / 1000
end
local began = now()
while now() < began + 100 do
end
return redis.call('GET', KEYS[1]) or 'gone'`
	if got, err := rdb.Eval(t.Context(), waits, []string{"k"}).Result(); got != "v" {
		t.Errorf("after 100 ms in a script the key is %v, %v", got, err)
	}
}
