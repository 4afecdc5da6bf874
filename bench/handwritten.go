package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
)

// handwritten is what a careful developer writes with x/sync, gobreaker and context: the permit and the timeout last to the
// end of the body, since the timeout's cancel has to wait for that anyway.
type handwritten struct {
	next        http.RoundTripper
	permits     *semaphore.Weighted
	breaker     *gobreaker.TwoStepCircuitBreaker[any]
	wait, total time.Duration
}

func newHandwritten(l limits, next http.RoundTripper) *handwritten {
	breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: "sber", MaxRequests: 3, Interval: 30 * time.Second, BucketPeriod: 3 * time.Second, Timeout: 30 * time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 10 && float64(c.TotalFailures) >= 0.5*float64(c.Requests)
		},
	})
	return &handwritten{next: next, permits: semaphore.NewWeighted(int64(l.permits)), breaker: breaker, wait: l.wait, total: l.total}
}

var errServer = errors.New("server error")

func (h *handwritten) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := h.acquire(req.Context()); err != nil {
		return refuse(req, err)
	}
	done, err := h.breaker.Allow()
	if err != nil {
		h.permits.Release(1)
		return refuse(req, err)
	}
	ctx, cancel := context.WithTimeout(req.Context(), h.total)
	end := func() {
		cancel()
		h.permits.Release(1)
	}
	resp, err := h.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		done(err)
		end()
		return nil, err
	}
	if resp.StatusCode >= 500 {
		done(errServer)
	} else {
		done(nil)
	}
	resp.Body = &endingBody{ReadCloser: resp.Body, end: end}
	return resp, nil
}

// refuse closes the body, as a RoundTripper must.
func refuse(req *http.Request, err error) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, err
}

var errFull = errors.New("full")

// acquire takes a permit; a timer is only made where one has to be waited for.
func (h *handwritten) acquire(ctx context.Context) error {
	switch {
	case h.permits.TryAcquire(1):
		return nil
	case h.wait == 0:
		return errFull
	}
	ctx, cancel := context.WithTimeout(ctx, h.wait)
	defer cancel()
	return h.permits.Acquire(ctx, 1)
}

type endingBody struct {
	io.ReadCloser
	once sync.Once
	end  func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.end)
	}
	return n, err
}

func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.end)
	return err
}
