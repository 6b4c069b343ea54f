//go:build race

package command

// raceEnabled reports whether the tests run under the race detector.
const raceEnabled = true
