package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"
)

// next is the version of the next release. release/apidiff.sh reads this line.
const next = "0.1.0"

// The linker sets these in builds for a release: -ldflags "-X PACKAGE.stampedVersion=0.1.0". In other builds they are empty, and Go's build
// information is used. tests/command checks that builds for releases set them by the right names.
var stampedVersion, stampedCommit string

type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" if unknown
	Modified bool   `json:"modified"` // there were uncommitted changes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, stampedVersion, stampedCommit)
}

// buildOf combines what the linker and Go know of a build. The linker's values take precedence.
func buildOf(info *debug.BuildInfo, stampedVersion, stampedCommit string) build {
	b := build{Version: next + "-dev", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if v, released := strings.CutPrefix(info.Main.Version, "v"); released && !isPseudo(v) {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if stampedVersion != "" {
		b.Version = strings.TrimPrefix(stampedVersion, "v")
	}
	if stampedCommit != "" {
		b.Commit = stampedCommit
	}
	return b
}

// isPseudo reports whether a version is one that Go made up for a commit without a tag, or with changes.
func isPseudo(version string) bool {
	return strings.Contains(version, "+") || regexp.MustCompile(`[.-]\d{14}-[0-9a-f]{12}$`).MatchString(version)
}

func (b build) String() string {
	text := fmt.Sprintf("holdfast %s (%s, %s/%s", b.Version, b.Go, b.OS, b.Arch)
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		text += " with changes"
	}
	return text + ")"
}

func version(f *pflag.FlagSet) action {
	json := f.Bool("json", false, "print it as one line of JSON")
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		b := thisBuild()
		return printResult(stdout, *json, b, b.String()+"\n")
	}
}
