package main

import (
	"fmt"
	"path"
	"regexp"
)

// story checks that a section of ARCHITECTURE tells the walk of a free acquire: that each function in it, written
// `package.Type.method` or `package.function`, is passed. walked is what "walks.sh -v" prints.
func story(section, walked string) (wrong []error) {
	passed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^passed (\S+)/\S+\s+\*?(\S+)`).FindAllStringSubmatch(walked, -1) {
		passed[path.Base(m[1])+"."+m[2]] = true
	}
	for _, m := range regexp.MustCompile("`(\\w+(?:\\.\\w+)+)`").FindAllStringSubmatch(section, -1) {
		if !passed[m[1]] {
			wrong = append(wrong, fmt.Errorf("ARCHITECTURE says that an acquire passes %s; it does not", m[1]))
		}
	}
	return wrong
}
