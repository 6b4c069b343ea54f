//go:build !race

// Package race says whether this program was built with the race detector.
package race

const Detector = false
