package mutants

import (
	"slices"

	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// All are the mutants. Each family has a file of its name.
var All = slices.Concat(
	leases, waiting, fences, dataloss, free, tickets, breaks, shares, kinds, quorum, parties, observers, naive,
)

// Short names for the constructors that most of the lists consist of. The places are markers in the library's
// sources: "mutants: release-owner".
var (
	line   = overlay.Line
	part   = overlay.Part
	insert = overlay.Insert
)

// byScript makes all releases go by script, for mutants of those scripts.
var byScript = insert("native-release", "if true {\n\treturn false, false\n}")

// paused are the faults that reveal a holder which does not know that its lease is over.
var paused = []string{"process-pause-long", "server-pause-long"}
