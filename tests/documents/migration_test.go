package documents

import (
	"go/ast"
	"go/parser"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func (p page) isMigration() bool { return path.Dir(p.path) == "docs/migration" }

var tablesOfCalls = regexp.MustCompile(`(?ms)^## Calls$(.*?)^## `)

// calls returns a function with the calls, and other expressions, in a page's tables of them.
func (p page) calls(t *testing.T) string {
	t.Helper()
	section := tablesOfCalls.FindStringSubmatch(p.text)
	if section == nil {
		t.Fatalf("%s has no section Calls", p.path)
	}
	body := "func calls() {\n"
	n := 0
	var header []string
	for line := range strings.Lines(section[1]) {
		if !strings.HasPrefix(line, "|") {
			header = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if header == nil {
			header = cells
		}
		for i, cell := range cells {
			if strings.TrimSpace(header[i]) == "Java" {
				continue
			}
			for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
				n++
				e, err := parser.ParseExpr(span[1])
				if err != nil {
					t.Errorf("%s: %q is no expression: %v", p.path, span[1], err)
					continue
				}
				if _, isCall := e.(*ast.CallExpr); !isCall {
					body += "_ = "
				}
				body += span[1] + "\n"
			}
		}
	}
	expect.AtLeast(t, p.path+": calls", n, 10)
	return body + "}\n"
}
