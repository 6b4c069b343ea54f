package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
)

// A reply without a write leaves a key's expiry unchanged, even in the key's last moment: on Redis 7.0 a key
// stays alive while a script runs, although the time from which PEXPIRE counts advances.
func TestAnswersDoNotProlong(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		inItsLastMoment := `
redis.call('SET', KEYS[1], 'hf2:A:1:1:0:{}', 'PX', 1)
local ends = redis.call('PEXPIRETIME', KEYS[1])
for i = 1, 2000000 do
end
local function renew()
` + script.Renew().Source + `
end
local said = renew()
return string.match(said, '^%a+') .. ' ' .. redis.call('PEXPIRETIME', KEYS[1]) - ends`
		said, err := b.rdb.Eval(t.Context(), inItsLastMoment, []string{"{k}"}, "", "B", 60000, 0, 1).Result()
		if err != nil || said != "gone 0" {
			t.Errorf("by how many ms the key lasts longer after an answer: %v, %v", said, err)
		}
	})
}
