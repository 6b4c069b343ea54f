package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersionOfABuild(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		module          string
		settings        []debug.BuildSetting
		version, commit string
		want            build
	}{
		"nothing is known":          {want: build{Version: next + "-dev"}},
		"go build in a checkout":    {module: "v0.1.1-0.20261126031500-0123456789ab+dirty", settings: vcs, want: build{Version: next + "-dev", Commit: "0123456789abcdef0123", Modified: true}},
		"go run":                    {module: "(devel)", want: build{Version: next + "-dev"}},
		"go install of a version":   {module: "v1.4.2", want: build{Version: "1.4.2"}},
		"go install of a candidate": {module: "v1.5.0-rc.1", want: build{Version: "1.5.0-rc.1"}},
		"go install of a commit":    {module: "v0.0.0-20261126031500-0123456789ab", want: build{Version: next + "-dev"}},
		"a release's program":       {module: "(devel)", version: "1.4.2", commit: "fedcba", want: build{Version: "1.4.2", Commit: "fedcba"}},
		"with a v":                  {version: "v1.4.2", want: build{Version: "1.4.2"}},
		"stamped in a checkout":     {module: "v1.3.9", settings: vcs, version: "1.4.2", commit: "fedcba", want: build{Version: "1.4.2", Commit: "fedcba", Modified: true}},
	} {
		c.want.Go, c.want.OS, c.want.Arch = runtime.Version(), runtime.GOOS, runtime.GOARCH
		info := &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}
		if got := buildOf(info, c.version, c.commit); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestVersionIsShown(t *testing.T) {
	for _, c := range []struct {
		build build
		want  string
	}{
		{build{Version: "1.4.2", Go: "go1.26.1", OS: "linux", Arch: "arm64"}, "holdfast 1.4.2 (go1.26.1, linux/arm64)"},
		{build{Version: "1.4.2", Go: "go1.26.1", OS: "linux", Arch: "arm64", Commit: "0123456789abcdef", Modified: true}, "holdfast 1.4.2 (go1.26.1, linux/arm64, commit 0123456789ab with changes)"},
		{build{Version: "1.4.2", Go: "go1.26.1", OS: "linux", Arch: "arm64", Commit: "01234"}, "holdfast 1.4.2 (go1.26.1, linux/arm64, commit 01234)"},
	} {
		if got := c.build.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
