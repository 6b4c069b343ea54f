package backend

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// standStill has this process stand still for a second.
func standStill(t *testing.T) {
	t.Helper()
	waker := exec.Command("sh", "-c", "sleep 1; kill -CONT "+strconv.Itoa(os.Getpid()))
	if err := waker.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = waker.Wait()
}

func TestOnlyAProcessThatStoodStillIsExcused(t *testing.T) {
	began := time.Now()
	attempts := 0
	Undisturbed(t, func() error {
		if attempts++; attempts > 1 {
			return nil
		}
		standStill(t)
		return errors.New("too late")
	})
	if attempts != 2 {
		t.Errorf("%d attempts", attempts)
	}
	if !Stalled(began) {
		t.Error("the process stood still, and nobody saw it")
	}
	for range 5 { // it may happen
		if !Stalled(time.Now()) {
			return
		}
	}
	t.Error("the process is seen to stand still, and did not")
}
