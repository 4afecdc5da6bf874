package resilient_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// HC-1 to HC-4: a light probe for each system, cached, of its own, that readiness alone depends on.
func TestRule_HC1_HC2_HC3_HC4(t *testing.T) {
	inOne(t, setting{cfg: permits(1)}, func(r *rig) {
		sber := r.beside("sber-health", permits(1), resilient.WithHealthURL(r.server.URL()+"/health"))
		ask := func(h http.Handler) (code int, body string) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Code, w.Body.String()
		}
		ready, alive := r.reg.Readiness("sber-health"), r.reg.Liveness()
		probes := func() int { return r.server.Stats().ByPath["/health"] }
		if s := sber.State().Health.Status; s != "unknown" || probes() != 0 {
			r.Errorf("before the first: %s, %d probes", s, probes())
		}

		// The bulkhead is full and the breaker open, and the system is well.
		r.server.On("/hang", testserver.HangBeforeHeaders())
		go sber.RoundTrip(r.to(r.Context(), "/hang"))
		synctest.Wait()
		sber.ForceOpen(0)
		r.server.On("/health", testserver.After(time.Second, testserver.OK("ok")))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if code, body := ask(ready); code != 200 {
					r.Errorf("%d %s", code, body)
				}
			})
		}
		all.Wait()
		if n := probes(); n != 1 {
			r.Errorf("%d probes for 100 questions at once", n)
		}
		if n := sber.State().Bulkhead.Active; n != 1 {
			r.Errorf("%d permits out", n)
		}
		r.server.Release()
		sber.Automatic()

		// It falls ill: readiness says so when the result is stale, in 3 s; liveness never asks.
		r.server.On("/health", testserver.HangBeforeHeaders())
		time.Sleep(29 * time.Second)
		if code, _ := ask(ready); code != 200 || probes() != 1 {
			r.Errorf("%d within 30 s, %d probes", code, probes())
		}
		time.Sleep(time.Second)
		d := took(func() {
			if code, body := ask(ready); code != 503 || !strings.Contains(body, "unhealthy") {
				r.Errorf("%d %s", code, body)
			}
		})
		if d != 3*time.Second || probes() != 2 {
			r.Errorf("a probe that hangs took %v; %d probes", d, probes())
		}
		time.Sleep(time.Minute)
		if code, _ := ask(alive); code != 200 || probes() != 2 {
			r.Errorf("liveness: %d, after %d probes", code, probes())
		}
		if s := sber.State().Breaker.State; s != "closed" {
			r.Errorf("the probes have made the breaker %s", s)
		}
		if err := r.Health(r.Context()); !errors.Is(err, resilient.ErrNoHealthProbe) {
			r.Errorf("a client without a probe: %v", err)
		}
	})
}
