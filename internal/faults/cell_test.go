package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/faultproxy"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A cell is one place of the matrix.
type cell struct {
	phase    phase
	harm     harm
	protocol testserver.Protocol
}

func (c cell) String() string { return fmt.Sprintf("%s, %s, %s", c.phase, c.harm.name, c.protocol) }

// exists reports whether there is such a thing.
func (c cell) exists() bool {
	switch c.phase {
	case connect, shake:
		return c.harm.in(c.phase) && c.protocol != testserver.HTTP1
	case upgrade:
		return c.harm.in(c.phase) && c.protocol != testserver.HTTP2
	}
	return c.harm.in(c.phase)
}

// seen is what a cell shows, in words that do not depend on the machine.
type seen struct {
	outcome string // of requests_total
	err     string // what errors.Is finds
	notSent bool
	verdict string // what the breaker was told
	end     string // what ended the exchange: the bound that fired, or who
	next    string // how the request after it fares, and over which connection
	queue   string // how long that stood in net/http's queue
}

// A sighting is what a cell showed, once.
type sighting struct {
	seen
	raw error // what the caller got
	bad error // what must not be anywhere
}

// see runs the cell.
func (c cell) see() (got sighting) {
	b, err := c.newBench()
	if err != nil {
		return sighting{bad: err}
	}
	got.raw, got.bad = b.meet(&got.seen)
	if got.bad == nil {
		got.bad = b.recover(&got.seen)
	}
	got.bad = errors.Join(got.bad, b.stop())
	return got
}

// recover has new connections be well, and then all of them.
func (b *bench) recover(got *seen) error {
	b.received.Do(func() { close(b.goOn) })
	b.proxy.SetNew(faultproxy.ToServer, faultproxy.Fault{})
	b.proxy.SetNew(faultproxy.ToClient, faultproxy.Fault{})
	if err := b.proxy.Accept(); err != nil {
		return err
	}
	next, connection, queue, err := b.tryNext()
	got.next, got.queue = "success, "+connection+" connection", queue
	if next != nil {
		got.next = errorWord(next) + ", " + connection + " connection"
	}
	if next == nil || err != nil {
		return err
	}
	if err := b.proxy.Heal(); err != nil {
		return err
	}
	for range 3 { // what is delayed stays so
		if next, _, _, err = b.tryNext(); next == nil || err != nil {
			return err
		}
	}
	return fmt.Errorf("after the fault: %w", next)
}

// meet has one exchange meet the fault, and returns its error, and another one for what is wrong with it.
func (b *bench) meet(got *seen) (raw, bad error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if d := b.harm.deadline; d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if b.phase == dial || b.phase == connect || b.phase == shake {
		if err := b.strike(); err != nil {
			return nil, err
		}
	}
	before, start := b.outcomes(), time.Now()
	if d := b.harm.leaves; d > 0 {
		time.AfterFunc(d, cancel)
	}
	err := b.exchange(ctx)
	took := time.Since(start)
	*got = seen{err: errorWord(err), notSent: resilient.NotSent(err), verdict: b.verdict(), end: b.endWord(err)}
	for name, n := range b.outcomes() {
		if n != before[name] {
			got.outcome += name
		}
	}
	if s := b.client.State(); s.InFlight != 0 || s.Bulkhead.Active != 0 {
		return err, fmt.Errorf("not given back: %+v", s)
	}
	if least, most := b.limits(err); took < least || took > most {
		return err, fmt.Errorf("it took %v", took)
	}
	return err, nil
}

// limits returns how long an exchange should have taken that ended with err. A bound that fires may be late, never early.
func (b *bench) limits(err error) (least, most time.Duration) {
	const late = 2 * time.Second
	t, ok := errors.AsType[*resilient.TimeoutError](err)
	switch {
	case ok:
		return t.Limit - ms, t.Limit + late
	case errors.Is(err, context.Canceled):
		return b.harm.leaves - ms, b.harm.leaves + late
	case err == nil, err == errForEver:
		return 0, time.Hour
	}
	return 0, bounds.ReadTimeout // what breaks is not waited for
}

// exchange does a request and reads its answer to the end.
func (b *bench) exchange(ctx context.Context) error {
	size := 5
	if b.phase == upload {
		size = b.harm.size()
	}
	req := b.request(ctx, size)
	if b.phase == upgrade {
		req, _ = http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch b.phase {
	case upgrade:
		return b.talk(resp)
	case body:
		if _, err := io.CopyN(io.Discard, resp.Body, firstPart); err != nil {
			return err
		}
		if err := b.strike(); err != nil {
			return err
		}
		b.received.Do(func() { close(b.goOn) })
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

var (
	errForEver = errors.New("waits for ever")
	errPermit  = errors.New("an upgraded connection holds its permit")
)

// talk sends a word over an upgraded connection, and waits for its echo for longer than any bound.
func (b *bench) talk(resp *http.Response) error {
	c, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return fmt.Errorf("no upgrade: %s", resp.Status)
	}
	if err := b.strike(); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, "ping!")
		for n, buf := 0, make([]byte, 5); err == nil && n < len(buf); {
			var more int
			more, err = c.Read(buf[n:])
			n += more
		}
		answered <- err
	}()
	var err error
	select {
	case err = <-answered:
	case <-time.After(bounds.TotalTimeout + 500*ms):
		err = errForEver
	}
	broken := err != nil && err != errForEver && err != io.EOF // after a half-close one may still write
	if held := b.client.State().Bulkhead.Active == 1; held == broken {
		return fmt.Errorf("%w: %v, after %w", errPermit, held, err)
	}
	c.Close()
	if err == errForEver {
		<-answered
	}
	return err
}

// tryNext does an ordinary request. It returns its error, over which connection it went, and how long it stood in net/http's
// queue for one.
func (b *bench) tryNext() (next error, connection, queue string, err error) {
	if err := b.await("the breaker stays open", func() bool { return b.client.State().Breaker.State != "open" }); err != nil {
		return nil, "", "", err
	}
	for len(b.dialled) > 0 {
		<-b.dialled
	}
	var asked, got time.Time
	connection, queue = "new", "none"
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GetConn: func(string) { asked = time.Now() },
		GotConn: func(i httptrace.GotConnInfo) {
			if got = time.Now(); i.Reused {
				connection = "same"
			}
		},
	})
	resp, next := b.client.Do(b.request(ctx, 5))
	if next == nil {
		_, next = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if len(b.dialled) > 0 {
		got = <-b.dialled
	}
	if got.Sub(asked) > 100*ms {
		queue = "≤ connect"
	}
	return next, connection, queue, nil
}

// outcomes returns the counts of requests_total.
func (b *bench) outcomes() map[string]float64 {
	families, _ := b.prom.Gather()
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "resilient_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "outcome" {
					all[l.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	return all
}

// verdict is what the half-open breaker made of the exchange.
func (b *bench) verdict() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	to := b.transitions[2:] // open, half_open
	switch {
	case len(to) == 0:
		return "neutral"
	case to[0] == "closed":
		return "success"
	}
	return "failure"
}

func errorWord(err error) string {
	t, isTimeout := errors.AsType[*resilient.TimeoutError](err)
	switch {
	case err == nil:
		return "none"
	case err == errForEver:
		return "none, it waits"
	case errors.Is(err, errPermit):
		return err.Error()
	case err == io.EOF:
		return "io.EOF"
	case errors.Is(err, resilient.ErrUnavailable):
		return "ErrUnavailable"
	case isTimeout && errors.Is(err, resilient.ErrTimeout) && errors.Is(err, context.DeadlineExceeded):
		return "ErrTimeout " + string(t.Phase)
	case errors.Is(err, context.Canceled):
		return "context.Canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "context.DeadlineExceeded"
	}
	return "the transport's"
}

// endWord says what ended the exchange.
func (b *bench) endWord(err error) string {
	t, isTimeout := errors.AsType[*resilient.TimeoutError](err)
	switch {
	case err == errForEver:
		return "Close"
	case isTimeout && t.Phase == resilient.PhaseDeadline:
		return fmt.Sprintf("the caller's deadline of %v, less a tenth", b.harm.deadline)
	case isTimeout:
		return fmt.Sprintf("%s %v", t.Phase, t.Limit)
	case errors.Is(err, context.Canceled):
		return "the caller"
	case err != nil:
		return "the fault"
	}
	return "–"
}
