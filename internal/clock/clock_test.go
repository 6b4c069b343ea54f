package clock

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Both clocks measure; the one that says longer is right, as none runs ahead.
func TestTheLongerTimeCounts(t *testing.T) {
	for _, c := range []struct {
		name             string
		mono, boot, want time.Duration
	}{
		{"both run", time.Second, time.Second, time.Second},
		{"a suspension", time.Second, time.Hour, time.Hour},
		{"suspended before anything else happened", 0, time.Minute, time.Minute},
		{"one clock only", time.Second, 0, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var boot time.Duration
				defer SetBoot(func() time.Duration { return boot })()
				before := Now()
				time.Sleep(c.mono)
				boot += c.boot
				if got := Since(before); got != c.want {
					t.Errorf("Since = %s, want %s", got, c.want)
				}
				if got := Now().Sub(before); got != c.want {
					t.Errorf("Sub = %s, want %s", got, c.want)
				}
				if got := before.Sub(Now()); got > 0 {
					t.Errorf("Sub of a later instant = %s", got)
				}
			})
		})
	}
}

func TestLagGrowsBySuspensionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		slept := time.Duration(0)
		defer SetBoot(func() time.Duration { return time.Hour + time.Since(begun) + slept })()
		first, known := Now().Lag()
		if !known {
			t.Fatal("the lag is not known")
		}
		time.Sleep(time.Minute)
		if lag, _ := Now().Lag(); lag != first {
			t.Errorf("the lag grew by %s in a minute awake", lag-first)
		}
		slept = time.Minute
		if lag, _ := Now().Lag(); lag-first != slept {
			t.Errorf("the lag grew by %s in a minute of sleep", lag-first)
		}
	})
	defer SetBoot(func() time.Duration { return 0 })()
	if lag, known := Now().Lag(); known {
		t.Errorf("one clock lags behind itself: %s", lag)
	}
}

func TestSetBootIsUndone(t *testing.T) {
	undo := SetBoot(func() time.Duration { return 42 })
	if got := Now().boot; got != 42 {
		t.Errorf("the clock shows %d", got)
	}
	undo()
	if got := Now().boot; got == 42 {
		t.Error("the clock still shows what was set")
	}
}

func TestBootClockRuns(t *testing.T) {
	first, start := bootTime(), time.Now()
	if runtime.GOOS != "linux" {
		if first != 0 {
			t.Errorf("it shows %s", first)
		}
		return
	}
	if first <= 0 {
		t.Fatalf("it shows %s", first)
	}
	time.Sleep(5 * time.Millisecond)
	least := time.Since(start)
	if ran := bootTime() - first; ran < least {
		t.Errorf("it ran %s in %s", ran, least)
	}
}
