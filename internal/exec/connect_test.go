package exec

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestOldServersAreRefused(t *testing.T) {
	for _, s := range []struct {
		server, version string
		ok              bool
	}{
		{"redis", "7.0.0", true},
		{"redis", "7.0.15", true},
		{"redis", "8.2.1", true},
		{"redis", "10.0.0", true},
		{"redis", "6.2.14", false},
		{"redis", "2.8", false},
		{"valkey", "7.2.4", true},
		{"valkey", "9.0.0", true},
		{"valkey", "7.1.9", false},
		{"something else", "1.0", true}, // says nothing of what it can do
		{"redis", "unstable", true},
	} {
		err := supported(driver.ServerInfo{Server: s.server, Version: s.version})
		if (err == nil) != s.ok {
			t.Errorf("%s %s: %v", s.server, s.version, err)
		}
		if err != nil && !strings.Contains(err.Error(), s.version) {
			t.Errorf("the error does not name the version: %v", err)
		}
	}
}

func TestWhichServersHaveDelifeq(t *testing.T) {
	for _, s := range []struct {
		server, version string
		has             bool
	}{
		{"valkey", "9.0.0", true},
		{"valkey", "9.1.2", true},
		{"valkey", "10.0", true},
		{"valkey", "8.1.4", false},
		{"valkey", "unstable", false},
		{"valkey", "", false},
		{"redis", "9.0.0", false},
		{"", "9.0.0", false},
	} {
		is, known := isAsNew(driver.ServerInfo{Server: s.server, Version: s.version}, delifeq)
		equal(t, s.server+" "+s.version, is && known, s.has)
	}
}
