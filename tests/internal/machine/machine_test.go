package machine

import (
	"testing"
	"testing/synctest"
)

// A watch that goes on keeps the bubble from ending.
func TestAWatchEnds(t *testing.T) {
	synctest.Test(t, func(*testing.T) { start().ended.Store(true) })
}
