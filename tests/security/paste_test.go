package security

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// snippets returns the commands in docs/SECURITY.md that make users, each with the following lines up to the end of its block, as people
// paste it.
func snippets(t *testing.T) (all [][]string) {
	t.Helper()
	text := expect.Of(os.ReadFile(filepath.Join(docs, "SECURITY.md"))).OK(t)
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "ACL SETUSER "):
			all, inside = append(all, []string{line}), true
		case line == "" || line == "```":
			inside = false
		case inside:
			all[len(all)-1] = append(all[len(all)-1], line)
		}
	}
	return all
}

// What the documents give for a user of the server works as it is pasted into redis-cli, which takes each line for a command of
// its own; and the files of docs/acl work as a server's aclfile.
func TestACLsWorkAsTheyArePasted(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, bin)
			// users returns the rules of all users, as the server has them.
			users := func(s *server.Server) map[string]string {
				reply := expect.Of(s.Do("ACL", "LIST")).OK(t)
				all := map[string]string{}
				for _, line := range reply.([]any) {
					_, line, _ := strings.Cut(fmt.Sprint(line), " ")
					name, text, _ := strings.Cut(line, " ")
					rules := slices.DeleteFunc(strings.Fields(text), func(r string) bool { return r == "sanitize-payload" }) // the default
					slices.Sort(rules)                                                                                       // they have no order
					all[name] = strings.Join(rules, " ")
				}
				return all
			}
			want := map[string]string{} // by role
			for _, role := range []string{"locker", "inspector", "breaker"} {
				for _, suffix := range []string{"", "-cluster"} {
					command := []any{"ACL", "SETUSER", "wanted", "reset", "on", ">PASSWORD"}
					for _, rule := range readRole(t, role+suffix).texts() {
						command = append(command, rule)
					}
					expect.OK(t, expect.ErrOf(s.Do(command...)))
					want[role+suffix] = users(s)["wanted"]
				}
			}

			conn := expect.Of(net.Dial("tcp", s.Addr())).OK(t)
			defer conn.Close()
			replies := bufio.NewReader(conn)
			seen := map[string]bool{}
			for _, lines := range snippets(t) {
				name := strings.Fields(lines[0])[2]
				for _, line := range lines {
					fmt.Fprintf(conn, "%s\r\n", line)
					if reply, err := replies.ReadString('\n'); err != nil || !strings.HasPrefix(reply, "+OK") {
						t.Errorf("%.60s...: %q, %v", line, reply, err)
					}
				}
				role, made := strings.Replace(name, "locks", "locker", 1), users(s)[name]
				switch made {
				case want[role]:
					seen[name] = true
				case want[role+"-cluster"]:
					seen[name+"-cluster"] = true
				default:
					t.Errorf("%s has the rules\n%s\nwant\n%s", name, made, want[role])
				}
				expect.OK(t, expect.ErrOf(s.Do("ACL", "DELUSER", name)))
			}
			if len(seen) != 6 {
				t.Errorf("the document shows %v", seen)
			}

			for _, suffix := range []string{"", "-cluster"} {
				file := expect.Of(filepath.Abs(filepath.Join(docs, "acl", "users"+suffix+".acl"))).OK(t)
				got := users(server.Start(t, bin, server.Conf("aclfile", file)))
				for _, role := range []string{"locker", "inspector", "breaker"} {
					if got[role] != want[role+suffix] {
						t.Errorf("%s: %s has the rules\n%s\nwant those of %s%s.rules:\n%s", file, role, got[role], role, suffix, want[role+suffix])
					}
				}
			}
		})
	}
}
