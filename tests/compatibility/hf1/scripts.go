package hf1

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed testdata
var recording embed.FS

// sumsDigest is the SHA-1 of testdata/SHA1SUMS, which has that of each script.
const sumsDigest = "1b930988923d9a9e6bc4d7cc82a0d003748c1c16"

// source is a script as it was sent.
type source struct{ text, digest string }

// scripts are the recorded scripts by name.
var scripts = load()

// Verify reports how the scripts differ from those that were recorded, or nil.
func Verify() error {
	sums, err := recording.ReadFile("testdata/SHA1SUMS")
	if err != nil {
		return err
	}
	if got := digest(sums); got != sumsDigest {
		return fmt.Errorf("the recording was changed: SHA1SUMS has the digest %s, not %s", got, sumsDigest)
	}
	recorded := 0
	for line := range strings.Lines(string(sums)) {
		want, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if s := scripts[strings.TrimSuffix(file, ".lua")]; s.digest != want {
			return fmt.Errorf("the recording was changed: %s has the digest %q, not %s", file, s.digest, want)
		}
		recorded++
	}
	if len(scripts) != recorded {
		return fmt.Errorf("the recording was changed: it has %d scripts, not %d", len(scripts), recorded)
	}
	return nil
}

func load() map[string]source {
	files, err := recording.ReadDir("testdata")
	if err != nil {
		panic("hf1: " + err.Error())
	}
	scripts := map[string]source{}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".lua")
		if !ok {
			continue
		}
		text, err := recording.ReadFile("testdata/" + f.Name())
		if err != nil {
			panic("hf1: " + err.Error())
		}
		scripts[name] = source{string(text), digest(text)}
	}
	return scripts
}

func digest(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}
