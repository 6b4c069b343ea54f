// Package early runs a keeper before most other packages are initialized, as package launcher does for launchers.
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
