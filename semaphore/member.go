package semaphore

import "errors"

// What a registry asks of the semaphores in it.

// admissible says what keeps s out of a registry.
func (s *Semaphore) admissible() error {
	if s.Name() == "" {
		return errors.New(`semaphore: the name is ""; give it that of the system`)
	}
	_, err := s.limits()
	return err
}

// limits returns the limits in force, or an error if s is closed.
func (s *Semaphore) limits() (Limits, error) {
	s.lock()
	defer s.unlock()
	if s.closed != nil { // told, but not wrapped: it is what callers are refused with, and no refusal here
		return Limits{}, errors.New("semaphore: " + s.state.Name + ": closed for good (" + s.closed.Error() + "); put a new one in its place")
	}
	return Limits{s.state.MaxConcurrent, s.state.MaxWaiting}, nil
}

// retire closes s if nobody uses it and commit, called while nothing can move, agrees.
func (s *Semaphore) retire(commit func() error) error {
	s.lock()
	defer s.unlock()
	if s.state.Active > 0 || s.queue.len > 0 {
		return &InUseError{Name: s.state.Name, Active: s.state.Active, Waiting: s.queue.len}
	}
	if err := commit(); err != nil {
		return err
	}
	s.close(&UnregisteredError{Name: s.state.Name})
	return nil
}
