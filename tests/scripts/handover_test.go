package scripts

import (
	"maps"
	"strconv"
	"testing"
)

// handOverCalls is how many commands the scripts of one hand-over call while a few wait: 10 in the release, 9 in
// the enqueue of the next waiter.
const handOverCalls = 19

// A hand-over calls no more commands than that.
func TestCommandsOfAHandOver(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		const waiting, rounds = 4, 5
		token := func(n int) string { return "W" + strconv.Itoa(n) }
		for n := range waiting + rounds {
			b.listen(token(n))
		}
		b.expect("granted T P T 1", b.acquire("t", token(0)))
		for n := 1; n < waiting; n++ {
			b.acquire("w", token(n))
		}

		before := b.back.Server.CommandStats()
		for n := range rounds {
			b.begins("queued ", b.acquire("w", token(n+waiting)))
			b.expect("released T", b.release(token(n), "", 0))
		}
		calls := b.back.Server.CommandStats()
		maps.DeleteFunc(calls, func(command string, n int64) bool {
			calls[command] -= before[command]
			// These are the test's own; subscriptions are pinged as time passes.
			return n == before[command] || command == "eval" || command == "info" || command == "ping"
		})

		b.begins("hf2:"+token(rounds)+":", b.read())
		sum := int64(0)
		for _, n := range calls {
			sum += n
		}
		// On a slow machine the queue's expiry is set once more.
		if sum < rounds || sum > handOverCalls*rounds+2 {
			t.Errorf("%d hand-overs call %d commands, want %d at most: %v", rounds, sum, handOverCalls*rounds, calls)
		}
	})
}
