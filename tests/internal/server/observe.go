package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

// Do runs a command on a connection of its own and returns the reply: a string, an int64, nil or a []any of
// these, or a driver.ReplyError. It waits for the reply for up to 10 s. Commands about their own connection, such as
// WAIT after a write, need Dial.
func (s *Server) Do(args ...any) (any, error) {
	c, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args...)
}

// Dial opens a connection to the server, for commands that need the same one. The caller closes it.
func (s *Server) Dial() (*resp.Conn, error) {
	c, err := resp.Dial(s.Addr(), replyTimeout)
	if err != nil {
		return nil, err
	}
	if s.password == "" {
		return c, nil
	}
	if _, err := c.Do("AUTH", s.password); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Info returns the fields of a section of INFO. If the server does not answer, it fails the test and returns
// nil.
func (s *Server) Info(section string) map[string]string {
	s.tb.Helper()
	fields, err := s.info(section)
	if err != nil {
		s.tb.Errorf("%s: %v", s.bin.Name, err)
	}
	return fields
}

// CommandStats returns how often each command has run since the server started or CONFIG RESETSTAT ran. Names
// are lower case; subcommands look like "client|kill". Commands that a script calls count, and so does the
// script.
func (s *Server) CommandStats() map[string]int64 {
	s.tb.Helper()
	return s.commandStats("calls")[0]
}

// Scripts returns how many scripts have run, and how many of them have called PUBSUB NUMSUB. An EVALSHA that failed is
// none: an EVAL followed.
func (s *Server) Scripts() (ran, askedNumsub int64) {
	s.tb.Helper()
	stats := s.commandStats("calls", "failed_calls")
	calls, failed := stats[0], stats[1]
	return calls["evalsha"] - failed["evalsha"] + calls["eval"], calls["pubsub|numsub"]
}

// Rejections returns how often each command was refused before it ran, for lack of permission or memory, or in
// a cluster because its keys are, or may be, elsewhere.
func (s *Server) Rejections() map[string]int64 {
	s.tb.Helper()
	return s.commandStats("rejected_calls")[0]
}

// commandStats returns those fields of each command's statistics, all of one moment.
func (s *Server) commandStats(fields ...string) (all []map[string]int64) {
	s.tb.Helper()
	stats := s.Info("commandstats")
	for _, field := range fields {
		counts := make(map[string]int64)
		for key, stat := range stats {
			command, ok := strings.CutPrefix(key, "cmdstat_")
			if !ok {
				continue
			}
			_, number, _ := strings.Cut(","+stat, ","+field+"=")
			number, _, _ = strings.Cut(number, ",")
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				s.tb.Errorf("%s: %s:%s: %v", s.bin.Name, key, stat, err)
			}
			counts[command] = n
		}
		all = append(all, counts)
	}
	return all
}

// CPU returns how much processor time the server has used since its start.
func (s *Server) CPU() time.Duration {
	s.tb.Helper()
	info := s.Info("cpu")
	var sum time.Duration
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[key], 64)
		if err != nil {
			s.tb.Errorf("%s: %s: %v", s.bin.Name, key, err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum
}

func (s *Server) info(section string) (map[string]string, error) {
	reply, err := s.Do("INFO", section)
	if err != nil {
		return nil, fmt.Errorf("INFO %s: %w", section, err)
	}
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("INFO %s: unexpected reply %v", section, reply)
	}
	return fields(text), nil
}

// fields reads lines "key:value", as INFO and CLUSTER INFO write them.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			m[key] = value
		}
	}
	return m
}
