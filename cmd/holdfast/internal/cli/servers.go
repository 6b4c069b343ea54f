package cli

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// servers are those that the user named: one, or the nodes of a quorum.
type servers struct {
	all    []*endpoint
	source string // the flag or variable that named them
}

// openServers makes clients of what serversNamed finds. It does no I/O.
func openServers(flags []string) (*servers, error) {
	source, urls := serversNamed(flags)
	s := &servers{source: source}
	for _, url := range urls {
		e, err := openURL(source, url)
		if err == nil {
			s.all = append(s.all, e)
			if len(urls) > 1 && !e.single() {
				err = configError("%s names %d servers, a quorum, and %s is a URL of a Cluster or of sentinels: a node is one server", source, len(urls), e.addr)
			}
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *servers) close() {
	for _, e := range s.all {
		_ = e.client.Close()
	}
}

// quorum reports whether there are several.
func (s *servers) quorum() bool { return len(s.all) > 1 }

// addr names them all, without credentials.
func (s *servers) addr() string {
	var all []string
	for _, e := range s.all {
		all = append(all, e.addr)
	}
	return strings.Join(all, ",")
}

func (s *servers) secrets() (all []string) {
	for _, e := range s.all {
		all = append(all, e.secrets...)
	}
	return all
}

// locker is where locks come from: a client for each server, and what is made of several.
type locker struct {
	clients []*holdfast.Client
	quorum  *holdfast.Quorum // nil if there is one server
}

// locker makes one. Its clients are Strict if there are several, or cfg is. A quorum waits for a node for so long in a
// round; 0 means the default.
func (s *servers) locker(cfg *holdfast.Config, nodeTimeout time.Duration) (*locker, error) {
	l := &locker{}
	for _, e := range s.all {
		c, err := e.locks(cfg)
		if err != nil {
			return nil, configError("%w", err)
		}
		l.clients = append(l.clients, c)
	}
	if !s.quorum() {
		return l, nil
	}
	var err error
	if l.quorum, err = holdfast.NewQuorum(l.clients, &holdfast.QuorumConfig{NodeTimeout: nodeTimeout}); err != nil {
		return nil, configError("%w", err)
	}
	return l, nil
}

// parting is how long close waits for a server that answers.
const parting = 3 * time.Second

// election is that of a name, of one server or of a majority.
func (l *locker) election(name string, opts ...holdfast.ElectionOption) *holdfast.Election {
	if l.quorum != nil {
		return l.quorum.Election(name, opts...)
	}
	return l.clients[0].Election(name, opts...)
}

// close lets what the library still has to take back be taken back, for at most that long.
func (l *locker) close(v *voice, most time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	errs := make(chan error)
	for _, c := range l.clients {
		go func() { errs <- c.Close(ctx) }()
	}
	for range l.clients {
		if err := <-errs; err != nil {
			v.tell("closing: %v", err)
		}
	}
}
