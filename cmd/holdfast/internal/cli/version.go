package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// next is the version that is being worked on.
const next = "0.1.0"

// Version returns the version of the command: that of its module, if it was installed as one.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if v, released := strings.CutPrefix(info.Main.Version, "v"); released && !isPseudo(v) {
			return v
		}
	}
	return next
}

// pseudo matches the version that Go gives to a commit without a tag, or with changes.
var pseudo = regexp.MustCompile(`[.-]\d{14}-[0-9a-f]{12}(\+.*)?$`)

func isPseudo(version string) bool {
	return pseudo.MatchString(version) || strings.Contains(version, "+")
}

func versionHelp(w io.Writer) {
	fmt.Fprint(w, "Usage: holdfast version\n\nPrints the version, the version of Go, and the commit that was built.\n")
}

func version(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	if len(args) > 0 {
		return exitcode.Usagef("holdfast version takes no arguments")
	}
	text := fmt.Sprintf("holdfast %s (%s, %s/%s", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		text += commit(info.Settings)
	}
	_, err := fmt.Fprintln(stdout, text+")")
	return err
}

// commit names the commit that was built, if Go knows it.
func commit(settings []debug.BuildSetting) (text string) {
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			text = ", commit " + s.Value[:min(12, len(s.Value))] + text
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " with changes"
		}
	}
	return text
}
