//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A client that fails a scenario while the machine stands still is judged again. If every attempt fails, so does the client.
func TestNobodyFailsBecauseTheMachineStoodStill(t *testing.T) {
	t.Parallel()
	server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for failures, passes := range map[int]bool{1: true, attempts: false} {
		runs := 0
		k := &kit{answer: time.Minute, server: server.Addr()}
		v, err := k.try(t.Context(), scenario{name: "still", run: func(*trial) {
			if runs++; runs > failures {
				return
			}
			// SIGSTOP stops this process as a whole, so another one wakes it.
			wake := exec.Command("sh", "-c", fmt.Sprintf("sleep 0.5; kill -CONT %d", os.Getpid()))
			if err := errors.Join(wake.Start(), syscall.Kill(os.Getpid(), syscall.SIGSTOP), wake.Wait()); err != nil {
				t.Error(err)
			}
			failf("it failed")
		}})
		if err != nil || v.OK != passes || runs != failures+1 && passes {
			t.Errorf("%d failures: %+v after %d runs, %v", failures, v, runs, err)
		}
	}
}
