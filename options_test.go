package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// constructors take options of the kind that is named by their interface.
var constructors = map[string]string{
	`client.Mutex("n", %s)`:                      "Mutex",
	`client.MutexKey("n", %s)`:                   "Mutex",
	`client.RedissonMutex("n", %s)`:              "Mutex",
	`client.OwnerMutex("n", "o", %s)`:            "Mutex",
	`client.RWMutex("n", %s)`:                    "RWMutex",
	`client.RWMutex("n").Reader(%s)`:             "RWMutex",
	`client.RWMutex("n").Writer(%s)`:             "RWMutex",
	`client.Semaphore("n", 1, %s)`:               "Semaphore",
	`client.Semaphore("n", 1).Permits(1, %s)`:    "Semaphore",
	`client.Multi([]string{"n", "m"}, %s)`:       "Multi",
	`once.New(client, "n", once.Every(1), %s)`:   "Once",
	`latch.New(client, "n", 1, %s)`:              "Latch",
	`barrier.New(client, "n", 1, %s)`:            "Barrier",
	`nodes.Mutex("n", %s)`:                       "Quorum",
	`holdfast.Options([]holdfast.Option{%s}...)`: "",
	`variadic([]holdfast.MutexOption{%s}...)`:    "Mutex",
	`client.Mutex("n", holdfast.Options(%s))`:    "",
}

// fits says of which kinds of locks the options are; "" stands for Option, which is of all.
var fits = map[string]string{
	`holdfast.TTL(1)`:         "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.NoRenew()`:      "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.MaxHold(1)`:     "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.MaxRenewals(1)`: "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.Identity("me")`: "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.Meta("k", "v")`: "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.Options()`:      "Mutex RWMutex Semaphore Multi Once Latch Barrier Quorum",
	`holdfast.Durability{}`:   "Mutex RWMutex Semaphore Multi Once Latch Barrier",
	`holdfast.Poll(1)`:        "Mutex RWMutex Semaphore Multi Once Quorum",
	`holdfast.Wait(1)`:        "Mutex RWMutex Semaphore Multi Once Quorum",
	`holdfast.Reentrant()`:    "Mutex RWMutex Multi",
	`holdfast.MaxDepth(1)`:    "Mutex RWMutex Multi",
	`once.MaxTries(1)`:        "Once",
}

// The compiler refuses options that have no meaning for a lock, and says which it is.
func TestOptionsAreCheckedByTheCompiler(t *testing.T) {
	source := `package p

import (
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/quorum"
)

func variadic(...holdfast.MutexOption) {}

func _(client *holdfast.Client, nodes *quorum.Quorum) {
`
	type use struct{ constructor, kind, option, kinds string }
	uses := map[int]use{}
	for constructor, kind := range constructors {
		for option, kinds := range fits {
			uses[strings.Count(source, "\n")+1] = use{constructor, kind, option, kinds}
			source += "\t" + strings.Replace(constructor, "%s", option, 1) + "\n"
		}
	}
	found := compile(t, source+"}\n")
	refused := 0
	for line, u := range uses {
		name, method := "holdfast."+u.kind+"Option", "fits"+u.kind
		if elsewhere := strings.ToLower(u.kind); u.kind != "" && strings.HasPrefix(u.constructor, elsewhere+".") || u.kind == "Quorum" {
			name, method = elsewhere+".Option", "Fits"+u.kind
		}
		want := strings.Contains(" "+u.kinds+" ", " "+u.kind+" ")
		if u.kind == "" { // it takes those that fit all
			want = strings.HasSuffix(u.kinds, "Quorum") && strings.Contains(u.kinds, "Latch")
			name, method = "holdfast.Option", "its"
		}
		code := fmt.Sprintf(strings.ReplaceAll(u.constructor, "%s", "%[1]s"), u.option)
		err := found[line]
		switch {
		case want && err != "":
			t.Errorf("%s does not compile: %s", code, err)
		case !want && err == "":
			t.Errorf("%s compiles", code)
		case !want:
			refused++
			if !strings.Contains(err, "does not implement "+name+" (missing method ") || !strings.Contains(err, method) {
				t.Errorf("the error of %s does not say that it fits no %s: %s", code, u.kind, err)
			}
		}
	}
	if refused < 40 {
		t.Errorf("only %d uses are refused", refused)
	}
}

// A user's type is no option, and a []Option is not one of a kind.
func TestOptionsThatAreNone(t *testing.T) {
	for code, want := range map[string]string{
		`type mine struct{ holdfast.Option }; _ = func(c *holdfast.Client) { c.Mutex("n", mine{}) }`:      "",
		`type mine struct{}; _ = func(c *holdfast.Client) { c.Mutex("n", mine{}) }`:                       "missing method",
		`_ = func(c *holdfast.Client, o []holdfast.Option) { c.Mutex("n", o...) }`:                        "cannot use o",
		`_ = func(c *holdfast.Client) { c.Multi(nil, holdfast.Durability{}, holdfast.MutexOption(nil)) }`: "holdfast.MutexOption does not implement holdfast.MultiOption (missing method fitsMulti)",
	} {
		found := compile(t, "package p\n\nimport \"github.com/holdfast-go/holdfast\"\n\nfunc _() { "+code+" }\n")
		if want == "" && len(found) > 0 || want != "" && !strings.Contains(fmt.Sprint(found), want) {
			t.Errorf("%s: %v; want %q", code, found, want)
		}
	}
}

var fset = token.NewFileSet()

var sources = importer.ForCompiler(fset, "source", nil)

// compile returns the errors of a file, by line.
func compile(t *testing.T, source string) map[int]string {
	t.Helper()
	if testing.Short() { // it compiles the library once more
		t.Skip("SKIPPED: part of make nightly")
	}
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	must(t, err)
	found := map[int]string{}
	c := types.Config{Importer: sources, Error: func(err error) {
		e := err.(types.Error)
		found[fset.Position(e.Pos).Line] += e.Msg
	}}
	_, _ = c.Check("p", fset, []*ast.File{f}, nil)
	return found
}
