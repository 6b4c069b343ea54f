package command

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stamp matches what the linker is told to set.
var stamp = regexp.MustCompile(`-X (\S+?)=`)

// What builds releases stamps the version and the commit into variables that exist: the linker passes over others in silence.
func TestReleasesAreStamped(t *testing.T) {
	long(t)
	uses(t)
	var flags []string
	for _, file := range []string{"../.goreleaser.yaml", "Dockerfile"} {
		var found []string
		for _, m := range stamp.FindAllStringSubmatch(string(deployed(t, file)), -1) {
			value := map[bool]string{true: "1.4.2", false: "fedcba987654"}[strings.HasSuffix(m[1], "Version")]
			found = append(found, "-X "+m[1]+"="+value)
		}
		if len(found) != 2 || flags != nil && !slices.Equal(found, flags) {
			t.Errorf("%s stamps %q, and another file %q", file, found, flags)
		}
		flags = found
	}
	program := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", strings.Join(flags, " "), "-o", program, ".")
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	said, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
	var got struct{ Version, Commit string }
	if json.Unmarshal(said, &got) != nil || err != nil || got.Version != "1.4.2" || got.Commit != "fedcba987654" {
		t.Errorf("%s, %v", said, err)
	}
}
