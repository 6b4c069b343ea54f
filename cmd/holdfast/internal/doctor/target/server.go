package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// Server is one server, and what it says about itself.
type Server struct {
	Addr    string
	Client  *redis.Client
	Replica bool // of a Cluster, or behind sentinels

	info      map[string]string // INFO, without its sections
	infoErr   error
	config    map[string]string // CONFIG GET
	configErr error
}

// settings are those that checks look at. None of them is secret.
var settings = []any{
	"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error",
	"min-replicas-to-write", "min-replicas-max-lag", "busy-reply-threshold", "client-output-buffer-limit", "cluster-node-timeout",
}

// Load asks for INFO and for settings. Its error says that the server cannot be reached.
func (s *Server) Load(ctx context.Context) error {
	text, err := s.Client.Info(ctx).Result()
	if err != nil && !IsAnswer(err) {
		return err
	}
	s.info, s.infoErr = fields(text), err
	if _, told := s.info["run_id"]; !told && err == nil {
		s.infoErr = report.ErrNotTold
	}
	s.config = map[string]string{}
	reply, err := s.Client.Do(ctx, append([]any{"config", "get"}, settings...)...).Result()
	s.configErr = err
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for k, v := range reply {
			s.config[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			s.config[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	if _, told := s.config["maxmemory"]; !told && err == nil {
		s.configErr = report.ErrNotTold
	}
	return nil
}

// IsAnswer reports whether an error is an answer of the server.
func IsAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// fields parses lines of NAME:VALUE.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// Field returns a field of INFO.
func (s *Server) Field(name string) (value string, ok bool) {
	value, ok = s.info[name]
	return value, ok
}

// Text returns a field of INFO, or "".
func (s *Server) Text(name string) string { return s.info[name] }

// Number returns a field of INFO as a number, or 0.
func (s *Server) Number(name string) int64 {
	v, _ := strconv.ParseInt(s.info[name], 10, 64)
	return v
}

// InfoErr is the error of INFO, or nil.
func (s *Server) InfoErr() error { return s.infoErr }

// MissingField is the error for a field that INFO does not have.
func (s *Server) MissingField() error {
	if s.infoErr != nil {
		return s.infoErr
	}
	return report.ErrNotTold
}

// Setting returns a setting, from CONFIG GET or, if that has none, from a field of INFO.
func (s *Server) Setting(name, field string) (string, error) {
	if v, ok := s.config[name]; ok {
		return v, nil
	}
	if v, ok := s.info[field]; ok && field != "" {
		return v, nil
	}
	if s.configErr != nil {
		return "", s.configErr
	}
	return "", report.ErrNotTold
}

// Config returns a setting, or "".
func (s *Server) Config(name string) string { return s.config[name] }

// ConfigErr is the error of CONFIG GET, or nil.
func (s *Server) ConfigErr() error { return s.configErr }

// ClusterInfo returns the fields of CLUSTER INFO.
func (s *Server) ClusterInfo(ctx context.Context) (map[string]string, error) {
	text, err := s.Client.ClusterInfo(ctx).Result()
	return fields(text), err
}

// ID returns the random ID that the server has had since its start.
func (s *Server) ID() string { return s.info["run_id"] }

// ReplicationID returns the ID that the server shares with its replicas.
func (s *Server) ReplicationID() string { return s.info["master_replid"] }

// IsLocal reports whether the server is reached without leaving this machine.
func (s *Server) IsLocal(ctx context.Context) bool {
	if s.Client.Options().Network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return false
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, host) // returns an address as it is
	for _, a := range addrs {
		if ip := net.ParseIP(a); ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return err == nil
}
