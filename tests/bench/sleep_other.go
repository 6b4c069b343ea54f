//go:build !linux

package main

import "time"

func sharpen() {}

func sleep(d time.Duration) { time.Sleep(d) }
