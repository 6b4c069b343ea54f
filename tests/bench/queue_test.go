package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func TestTheTimeOfAScript(t *testing.T) {
	s := server.Start(t, server.One(t))
	l, err := openScripts(job{Addrs: []string{s.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	scripts := l.(*scripts)
	if err := scripts.rdb.ScriptLoad(t.Context(), script.Release().Source).Err(); err != nil {
		t.Fatal(err)
	}
	release := func(want string) (time.Duration, error) {
		return scripts.run(t.Context(), script.Release(), want, []string{"lock", "queue", "fence"}, "", "token", "", "0")
	}
	var sum time.Duration
	for range 20 {
		took, err := release("absent")
		if err != nil {
			t.Fatal(err)
		}
		sum += took
	}
	stats, err := scripts.rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := scriptTime(stats); err != nil || all != sum || sum == 0 {
		t.Errorf("the scripts took %v in all, and %v one by one: %v", all, sum, err)
	}
	if _, err := release("released"); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("the lock does not exist, but its release: %v", err)
	}
}
