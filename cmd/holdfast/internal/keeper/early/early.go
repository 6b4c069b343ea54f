// Package early runs a keeper before most other packages are initialized, for the same reason as package launcher.
package early

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

func init() {
	if code, ok := keeper.Main(os.Args[1:]); ok {
		os.Exit(code)
	}
}
