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

// jvm is what runs the contestants in Java.
type jvm struct {
	command  []string
	redisson string // its version
	missing  string // why there is no command
}

// setUpInterop fetches the libraries that the tests of locks shared with Java use, pinned there.
const setUpInterop = "../interop/setup.sh"

// findJava gets ready what runs java/Contestant.java, compiled into a folder. It is no error that
// there is no JVM, or no libraries to be had.
func findJava(ctx context.Context, dir string) (jvm, error) {
	if runtime.GOOS != "linux" { // elsewhere System.nanoTime is not the board's clock
		return jvm{missing: "its processes share a clock with others on Linux only"}, nil
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
		return jvm{}, fmt.Errorf("%s has not one redisson-*.jar: %v", libraries, jars)
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
