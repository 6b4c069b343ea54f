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

// next is the version that is being worked on. release/apidiff.sh reads it, too.
const next = "0.1.0"

// The linker sets these in programs that are built for a release: -ldflags "-X PACKAGE.stampedVersion=0.1.0". Otherwise they are
// empty, and Go says what it knows of the build. tests/command checks that builds for releases name them rightly.
var stampedVersion, stampedCommit string

// build says what was built.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" if it is not known
	Modified bool   `json:"modified"` // there were changes beside the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// thisBuild is the build that runs.
func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, stampedVersion, stampedCommit)
}

// buildOf puts together what the linker and Go know of a build. A stamp counts for more.
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

// isPseudo reports whether Go gave the version to a commit without a tag, or with changes.
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

const versionHelp = `Prints the version, the version of Go, the system it was built for, and the commit. A
build that is not of a release has the version that comes next, with -dev.
`

func version(f *pflag.FlagSet) action {
	json := f.Bool("json", false, "print it as one line of JSON")
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		b := thisBuild()
		return printResult(stdout, *json, b, b.String()+"\n")
	}
}
