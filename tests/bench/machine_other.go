//go:build !linux && !darwin

package main

import "errors"

func openBoard(string) (*board, error) { return nil, errors.New("the bench runs on Linux and macOS") }
