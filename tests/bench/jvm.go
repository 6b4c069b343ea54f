package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

//go:embed java/Contestant.java
var contestantJava []byte

// jvm says how to run the contestant in Java.
type jvm struct {
	command  []string
	redisson string // its version
	missing  string // why it cannot be run
}

// setUpInterop fetches the pinned libraries with which tests share locks with Java.
const setUpInterop = "../interop/setup.sh"

// findJava compiles java/Contestant.java into a folder. It is not an error if there is no JVM, or if the libraries cannot
// be fetched.
func findJava(ctx context.Context, dir string) (jvm, error) {
	if runtime.GOOS != "linux" { // on other systems, System.nanoTime is not the board's clock
		return jvm{missing: "it shares a clock with other processes only on Linux"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	setUp := exec.CommandContext(ctx, setUpInterop, "java")
	var said strings.Builder
	setUp.Stderr = &said
	folder, err := setUp.Output()
	reason := strings.TrimSpace(said.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
		return jvm{missing: reason}, nil
	}
	if err != nil {
		return jvm{}, fmt.Errorf("%s: %w: %s", setUpInterop, err, reason)
	}
	libraries := filepath.Join(strings.TrimSpace(string(folder)), "lib")
	jars, err := filepath.Glob(filepath.Join(libraries, "redisson-*.jar"))
	if err != nil || len(jars) != 1 {
		return jvm{}, fmt.Errorf("%s does not have exactly one redisson-*.jar: %v", libraries, jars)
	}
	path := libraries + "/*"
	source := filepath.Join(dir, "Contestant.java")
	if err := os.WriteFile(source, contestantJava, 0o600); err != nil {
		return jvm{}, err
	}
	if out, err := exec.CommandContext(ctx, "javac", "-d", dir, "-cp", path, source).CombinedOutput(); err != nil {
		return jvm{}, fmt.Errorf("javac: %w: %s", err, out)
	}
	return jvm{
		command:  []string{"java", "-Xmx256m", "-cp", dir + ":" + path, "Contestant"},
		redisson: strings.Replace(strings.TrimSuffix(filepath.Base(jars[0]), ".jar"), "-", " ", 1),
	}, nil
}
