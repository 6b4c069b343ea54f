package fence

import (
	"embed"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua
var files embed.FS

// Lua is the guard to put before a script that is run without Redis.Run, for example with another client or from another
// language. Its header says which KEYS and ARGV it takes; MarkKey returns the key. The script after it may return
// anything. A refusal is an error reply that begins with STALE.
var Lua = text("guard.lua")

var (
	raise = load("raise")
	set   = load("set")
)

// Script is a guarded Lua script: it runs only if its resource has not seen a later lease.
type Script struct{ guarded driver.Script }

// NewScript returns a guarded script with this source, which finds its own KEYS and ARGV as usual. Redis.Run returns its
// reply as text: a string, number or status as it is, no reply as "", and other tables as JSON.
func NewScript(source string) *Script {
	whole := Lua + text("begin.lua") + strings.TrimSuffix(source, "\n") + "\n" + text("end.lua")
	return &Script{driver.NewScript("guarded", whole)}
}

// load returns the script in a file, guarded.
func load(name string) driver.Script {
	return driver.NewScript("fence-"+name, Lua+text(name+".lua"))
}

// text returns the contents of an embedded file.
func text(file string) string {
	b, err := files.ReadFile("lua/" + file)
	if err != nil {
		panic("fence: " + err.Error())
	}
	return string(b)
}
