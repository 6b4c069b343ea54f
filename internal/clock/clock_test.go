package clock

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Neither clock runs fast, so the longer time is the right one.
func TestSubReturnsTheLongerTime(t *testing.T) {
	for _, c := range []struct {
		name             string
		mono, boot, want time.Duration
	}{
		{"both clocks run", time.Second, time.Second, time.Second},
		{"suspended for most of the time", time.Second, time.Hour, time.Hour},
		{"suspended all the time", 0, time.Minute, time.Minute},
		{"no boot clock", time.Second, 0, time.Second},
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

func TestLagGrowsOnlyDuringSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		suspended := time.Duration(0)
		defer SetBoot(func() time.Duration { return time.Hour + time.Since(began) + suspended })()
		first, ok := Now().Lag()
		if !ok {
			t.Fatal("Lag found no boot clock")
		}
		time.Sleep(time.Minute)
		if lag, _ := Now().Lag(); lag != first {
			t.Errorf("the lag grew by %s in a minute awake", lag-first)
		}
		suspended = time.Minute
		if lag, _ := Now().Lag(); lag-first != suspended {
			t.Errorf("the lag grew by %s in a suspension of %s", lag-first, suspended)
		}
	})
	defer SetBoot(func() time.Duration { return 0 })()
	if lag, ok := Now().Lag(); ok {
		t.Errorf("Lag = %s, true without a boot clock", lag)
	}
}

func TestTheBootClockRuns(t *testing.T) {
	first, began := Boot(), time.Now()
	if runtime.GOOS != "linux" {
		if first != 0 {
			t.Errorf("Boot = %s, want 0", first)
		}
		return
	}
	if first <= 0 {
		t.Fatalf("Boot = %s", first)
	}
	time.Sleep(5 * time.Millisecond)
	elapsed := time.Since(began)
	if ran := Boot() - first; ran < elapsed {
		t.Errorf("the boot clock advanced by %s in %s", ran, elapsed)
	}
}
