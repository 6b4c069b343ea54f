package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Version is the version of all of Holdfast's modules.
const Version = "0.1.0"

func versionHelp(w io.Writer) {
	fmt.Fprint(w, "Usage: holdfast version\n\nPrints the version, and what it was built with and from.\n")
}

func version(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	if wantsHelp(args) {
		versionHelp(stdout)
		return nil
	}
	if len(args) > 0 {
		return usageError("holdfast version takes no arguments")
	}
	text := fmt.Sprintf("holdfast %s (%s, %s/%s", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		text += fromBuild(info.Settings)
	}
	_, err := fmt.Fprintln(stdout, text+")")
	return err
}

// fromBuild says which commit was built, where Go knows it.
func fromBuild(settings []debug.BuildSetting) (text string) {
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

func wantsHelp(args []string) bool {
	return len(args) > 0 && (args[0] == "-h" || args[0] == "--help")
}
