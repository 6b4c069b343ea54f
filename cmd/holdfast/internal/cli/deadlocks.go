package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// deadlock is the JSON of a circle of holders, each of whom waits for the lock of the next, and the last for that of the first.
type deadlock struct {
	Circle []heldLock `json:"circle"`
}

type heldLock struct {
	Name string `json:"name"`
	lockstatus.Process
}

func deadlocks(f *pflag.FlagSet) action {
	o := &serverFlags{role: "inspector", lacks: "of which it is not known who waits"}
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			all, err := in.Deadlocks(ctx)
			if err != nil {
				return err
			}
			for _, one := range all {
				report := deadlock{}
				for _, h := range one.Circle {
					report.Circle = append(report.Circle, heldLock{h.Name, lockstatus.NewHolder(h)})
				}
				if err := printResult(stdout, o.json, report, describeCircle(one.Circle)); err != nil {
					return err
				}
			}
			if len(all) > 0 {
				return &exitcode.Error{Code: exitcode.Problems}
			}
			return nil
		})
	}
}

// describeCircle names each holder, and for what it waits. The last line says how to break the circle.
func describeCircle(circle []holdfast.Holder) string {
	var b strings.Builder
	for i, h := range circle {
		next := circle[(i+1)%len(circle)]
		fmt.Fprintf(&b, "%s holds %s (grant %s) and waits for %s\n",
			lockstatus.OwnerOf(h), printable.Line(h.Name, 512), h.Grant, printable.Line(next.Name, 512))
	}
	return b.String() + "\n"
}
