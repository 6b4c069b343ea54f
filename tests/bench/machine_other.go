//go:build !linux && !darwin

package main

import (
	"errors"
	"time"
)

func openBoard(string) (*board, error) { return nil, errors.New("the bench runs on Linux and macOS") }

func cpuTime() time.Duration { return 0 }
