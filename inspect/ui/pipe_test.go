package ui

import (
	"io"
	"net/http"
	"sync"
)

// pipe is an http.ResponseWriter whose reader takes its time: a write waits until it is read.
type pipe struct {
	*io.PipeReader
	to     *io.PipeWriter
	header http.Header
	once   sync.Once
}

func newPipe() *pipe {
	r, w := io.Pipe()
	return &pipe{PipeReader: r, to: w, header: http.Header{}}
}

func (p *pipe) Header() http.Header            { return p.header }
func (p *pipe) WriteHeader(int)                {}
func (p *pipe) Flush()                         {}
func (p *pipe) Write(text []byte) (int, error) { return p.to.Write(text) }
func (p *pipe) end()                           { p.once.Do(func() { _ = p.to.Close(); _ = p.PipeReader.Close() }) }
