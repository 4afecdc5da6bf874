package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A bank is a service's adapter: it has the errors of the domain, and hides the generated client.
type bank struct {
	guard *resilient.Client
	api   *bankClient
}

var (
	errBankUnavailable = errors.New("bank unavailable")
	errDeclined        = errors.New("payment declined")
)

// Pay makes two requests: one that gets a token, one that pays.
func (b *bank) Pay(ctx context.Context) (string, error) {
	receipt, err := resilient.Execute(ctx, b.guard, func(ctx context.Context) (string, error) {
		_, token, err := b.api.call(ctx, "POST", "/token")
		if err != nil {
			return "", err
		}
		code, receipt, err := b.api.call(ctx, "POST", "/pay?token="+token)
		switch {
		case err != nil:
			return "", err
		case code == http.StatusPaymentRequired:
			return "", errDeclined
		case code != http.StatusOK:
			return "", fmt.Errorf("bank: status %d", code)
		}
		return receipt, nil
	})
	if errors.Is(err, resilient.ErrUnavailable) {
		return "", fmt.Errorf("%w: %w", errBankUnavailable, err)
	}
	return receipt, err
}

// CB-1, OAS-1: the adapter's method is guarded, as one call; the generated client is what the generator made of it.
func TestRule_CB1_OAS1(t *testing.T) {
	cfg := trips(3, resilient.Config{})
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		b := &bank{guard: r.Client, api: &bankClient{r.server.URL(), r.Client}}
		inside := func(w http.ResponseWriter, q *http.Request) {
			if n := r.State().Bulkhead.Active; n != 1 {
				r.Errorf("%s: %d permits for one method", q.URL.Path, n)
			}
			io.WriteString(w, q.URL.Path[1:])
		}
		r.server.On("/token", http.HandlerFunc(inside))
		r.server.On("/pay", http.HandlerFunc(inside))
		if receipt, err := b.Pay(r.Context()); receipt != "pay" || err != nil {
			r.Errorf("%q, %v", receipt, err)
		}
		r.server.On("/pay", testserver.Status(402))
		for range 20 { // the bank is well, whatever the domain says of its answer
			if _, err := b.Pay(r.Context()); !errors.Is(err, errDeclined) {
				r.Error(err)
			}
		}
		r.breaker("closed")
		r.server.On("/pay", testserver.Status(500))
		for i := range 3 { // each is one failure, though each has a token, which is a success, before it
			r.breaker("closed")
			if _, err := b.Pay(r.Context()); err == nil || errors.Is(err, errBankUnavailable) {
				r.Errorf("%d: %v", i, err)
			}
		}
		r.breaker("open")
		if _, err := b.Pay(r.Context()); !errors.Is(err, errBankUnavailable) {
			r.Error(err)
		}
		if m := r.metrics(); m["executions_total success"] != 1 || m["executions_total error"] != 23 || m["executions_total refused_open"] != 1 {
			r.Errorf("%v", m)
		}
	})
}

// CB-2 to CB-5: a window, a minimum, a ratio, an open time, probes; slow calls count where SlowCall is set.
func TestRule_CB2_CB3_CB4_CB5(t *testing.T) {
	ratio := resilient.Config{Breaker: config.Breaker{ConsecutiveFailures: resilient.Off}}
	slow := resilient.Config{Breaker: config.Breaker{SlowCall: 2500 * time.Millisecond}}
	get := func(r *rig, n, code int) {
		r.server.Default(testserver.Status(code))
		for range n {
			r.get(r.Context())
		}
	}
	for name, row := range map[string]struct {
		cfg resilient.Config
		run func(r *rig)
	}{
		"minimum": {ratio, func(r *rig) {
			get(r, 9, 500)
			r.breaker("closed")
			get(r, 1, 500)
			r.breaker("open")
		}},
		"ratio": {ratio, func(r *rig) {
			get(r, 51, 200)
			get(r, 50, 500)
			r.breaker("closed")
			get(r, 1, 500) // 51 of 102
			r.breaker("open")
		}},
		"window": {ratio, func(r *rig) {
			get(r, 9, 500)
			time.Sleep(30 * time.Second)
			get(r, 9, 500) // those before are no longer in it
			r.breaker("closed")
			time.Sleep(20 * time.Second)
			get(r, 1, 500) // and these are still
			r.breaker("open")
		}},
		"open time": {ratio, func(r *rig) {
			get(r, 10, 500)
			time.Sleep(30 * time.Second)
			get(r, 1, 200)
			if n := r.server.Stats().Requests; n != 10 {
				r.Errorf("the server saw %d requests", n)
			}
			time.Sleep(1)
			get(r, 1, 200)
			if n := r.server.Stats().Requests; n != 11 {
				r.Errorf("the server saw %d requests after 30 s", n)
			}
		}},
		"probes": {ratio, func(r *rig) {
			get(r, 10, 500)
			time.Sleep(30*time.Second + 1)
			get(r, 2, 200)
			r.breaker("half_open")
			get(r, 1, 500)
			r.breaker("open")
			time.Sleep(30*time.Second + 1)
			r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
			for range 10 {
				go r.get(r.Context())
			}
			synctest.Wait()
			if n := r.server.Stats().Concurrent; n != 3 {
				r.Errorf("%d probes at once", n)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			r.breaker("closed")
		}},
		"slow calls": {slow, func(r *rig) {
			r.server.Default(testserver.After(2501*time.Millisecond, testserver.OK("ok")))
			for range 10 {
				r.get(r.Context())
			}
			r.breaker("open")
			r.outcomes(map[string]float64{"success": 10}) // the callers got their answers
		}},
		"slow calls are off": {resilient.Config{}, func(r *rig) {
			r.server.Default(testserver.After(4999*time.Millisecond, testserver.OK("ok")))
			repeat(20, func() { r.get(r.Context()) })
			r.breaker("closed")
		}},
		"a hang": {resilient.Config{}, func(r *rig) { // what the ratio alone is late for
			get(r, 1000, 200)
			r.server.Default(testserver.HangBeforeHeaders())
			for range 16 {
				go r.get(r.Context())
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			r.breaker("open")
		}},
	} {
		t.Run(name, func(t *testing.T) { inOne(t, setting{cfg: row.cfg}, row.run) })
	}
}

// CB-6: an open breaker and a full bulkhead are one error of the domain.
func TestRule_CB6(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		b := &bank{guard: r.Client, api: &bankClient{r.server.URL(), r.Client}}
		unavailable := func(why error) {
			r.Helper()
			if _, err := b.Pay(r.Context()); !errors.Is(err, errBankUnavailable) || !errors.Is(err, why) {
				r.Errorf("%v is not %v", err, why)
			}
			_, _, err := b.api.call(r.Context(), "GET", "/") // and without Execute
			r.is(err, resilient.ErrUnavailable, why)
			if code, _, ok := resilient.StatusCode(err); code != 503 || !ok || !resilient.NotSent(err) {
				r.Errorf("%v: %d, sent %t", err, code, !resilient.NotSent(err))
			}
		}
		r.server.Default(testserver.HangBeforeHeaders())
		first := make(chan error)
		go func() { _, err := b.Pay(r.Context()); first <- err }()
		synctest.Wait()
		unavailable(resilient.ErrBulkheadFull)
		if err := <-first; errors.Is(err, errBankUnavailable) || !errors.Is(err, resilient.ErrTimeout) {
			r.Errorf("a timeout of one that was sent: %v", err)
		}
		r.ForceOpen(0)
		unavailable(resilient.ErrCircuitOpen)
		r.Automatic()
		r.trip()
		unavailable(resilient.ErrCircuitOpen)
	})
}

// CB-X2: the breaker is not home-made: it is gobreaker, of which users see nothing.
func TestRule_CBX2(t *testing.T) {
	const gobreaker = "github.com/sony/gobreaker/v2"
	files, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	if files[gobreaker] == "" {
		t.Errorf("%s is not used", gobreaker)
	}
	for _, path := range public {
		for _, f := range exports(t, path) {
			if slices.ContainsFunc(append(written(f.Params()), written(f.Results())...), func(typ string) bool { return strings.Contains(typ, gobreaker) }) {
				t.Errorf("%s.%s has a type of gobreaker's", path, f.name)
			}
		}
	}
}
