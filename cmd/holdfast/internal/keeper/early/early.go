// Package early runs keepers before most other packages are initialized, as package launcher does with launchers.
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
