package testserver

import (
	"context"
	"io"
	"maps"
)

// Stats are what reached the server.
type Stats struct {
	Requests int            // whose headers arrived
	ByPath   map[string]int // the same; "CONNECT" for CONNECT requests

	// Concurrent counts the requests between their arrival and the handler's return, the response body included.
	// It is exact for what the client has seen end, except where a handler of the caller's own sends all of a
	// declared Content-Length before it returns.
	Concurrent    int
	MaxConcurrent int
	Hanging       int // of the concurrent ones, those that wait for Release
	Aborted       int // whose client went away before their end

	Bodies    int   // request bodies read to their end
	BodyBytes int64 // bytes of request bodies read

	Conns        int // accepted so far
	OpenConns    int // not closed by the server yet, which notices a client's close with its next read
	MaxOpenConns int
}

// Stats returns a consistent snapshot.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot()
}

func (s *Server) snapshot() Stats {
	st := s.stats
	st.ByPath = maps.Clone(st.ByPath)
	return st
}

// ResetPeaks sets MaxConcurrent and MaxOpenConns to what there is now.
func (s *Server) ResetPeaks() {
	s.update(func(st *Stats) {
		st.MaxConcurrent = st.Concurrent
		st.MaxOpenConns = st.OpenConns
	})
}

// Await returns nil as soon as ok reports true of the statistics, which it asks at each change, or the error of ctx.
func (s *Server) Await(ctx context.Context, ok func(Stats) bool) error {
	for {
		s.mu.Lock()
		st := s.snapshot()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		if ok(st) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) update(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
	s.stats.MaxConcurrent = max(s.stats.MaxConcurrent, s.stats.Concurrent)
	s.stats.MaxOpenConns = max(s.stats.MaxOpenConns, s.stats.OpenConns)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// begin counts a request in, unless the server is closed.
func (s *Server) begin(path string) (ok bool) {
	s.update(func(st *Stats) {
		if ok = !s.closed; !ok {
			return
		}
		s.running++
		st.Requests++
		st.Concurrent++
		if st.ByPath == nil {
			st.ByPath = make(map[string]int)
		}
		st.ByPath[path]++
	})
	return ok
}

// countedBody counts what is read of a request body.
type countedBody struct {
	io.ReadCloser
	server *Server
	ended  bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.server.update(func(st *Stats) {
		st.BodyBytes += int64(n)
		if err == io.EOF && !b.ended {
			b.ended = true
			st.Bodies++
		}
	})
	return n, err
}
