package command

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The fence of a job that has begun just now may not be known on the server yet. A run in the job looks until it is, and then
// refuses to wait for the job's own lock.
func TestARunInAJobLooksForTheJobsFence(t *testing.T) {
	t.Parallel()
	uses(t)
	srv := server.Start(t, server.One(t))
	do := func(words ...any) string {
		reply, err := srv.Do(words...)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(reply)
	}
	hold := func(fence int) {
		do("SET", "holdfast:{job}", fmt.Sprintf(`hf2:AAAAAAAAAAAAAAAAAAAAAA:%d:1700000000000:0:{"o":"api-7"}`, fence), "PX", 3600000)
	}
	hold(0)
	run := exec.CommandContext(t.Context(), "holdfast", "run", "--wait", "1m", "job", "--", "true")
	run.Env = append(os.Environ(), "HOLDFAST_REDIS=redis://"+srv.Addr(), "HOLDFAST_NAME=job", "HOLDFAST_FENCE=17")
	var said strings.Builder
	run.Stderr = &said
	expect.OK(t, run.Start())
	looks := regexp.MustCompile(`cmdstat_pttl:calls=([3-9]|\d\d)`) // each look asks for the lock's PTTL
	backend.Eventually(t, "it has looked some times", func() bool {
		expect.Equal(t, "it waits for the lock of its own job", do("EXISTS", "holdfast:{job}:q"), "0")
		return looks.MatchString(do("INFO", "commandstats"))
	})
	hold(17)
	if err := run.Wait(); run.ProcessState.ExitCode() != 64 || !strings.Contains(said.String(), "the run would wait for itself") {
		t.Errorf("the run: %v, %s", err, said.String())
	}
}
