//go:build race

package race

const Detector = true
