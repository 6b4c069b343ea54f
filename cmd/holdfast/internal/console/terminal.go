package console

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && tty.IsTerminal(f)
}

// HasStyles reports whether a stream is a terminal that shows bold type and colors, and its user wants them.
func HasStyles(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
