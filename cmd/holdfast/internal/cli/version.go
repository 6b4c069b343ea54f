package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Version is the version of all of Holdfast's modules.
const Version = "0.1.0"

func versionHelp(w io.Writer) {
	fmt.Fprint(w, "Usage: holdfast version\n\nPrints the version, the version of Go, and the commit that was built.\n")
}

func version(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	if len(args) > 0 {
		return exitcode.Usagef("holdfast version takes no arguments")
	}
	text := fmt.Sprintf("holdfast %s (%s, %s/%s", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
