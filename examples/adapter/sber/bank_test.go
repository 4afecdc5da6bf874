package sber_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/adapter/payment"
	"github.com/resilient-go/resilient/examples/adapter/sber"
	"github.com/resilient-go/resilient/resilienttest"
)

// It is what the domain asks for.
var _ payment.Bank = (*sber.Bank)(nil)

type object = map[string]any

var order = payment.Order{ID: "order-7", Kopecks: 9900}

// inBubble runs f with an adapter to a bank that is well.
func inBubble(t *testing.T, cfg resilient.Config, f func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, c *resilient.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := resilienttest.NewPartner(t)
		well(p)
		c := p.Client(sber.Name, cfg)
		b, err := sber.New(p.URL(), "secret", c)
		if err != nil {
			t.Fatal(err)
		}
		f(t, b, p, c)
	})
}

func well(p *resilienttest.Partner) {
	p.On("/tokens").ReplyJSON(201, object{"token": "one-time"})
	p.On("/payments").ReplyJSON(201, object{"id": "p1", "status": "accepted"})
	p.On("/payments/p1").ReplyJSON(200, object{"id": "p1", "status": "settled"})
}

func TestPay(t *testing.T) {
	inBubble(t, resilient.Config{}, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, _ *resilient.Client) {
		got, err := b.Pay(t.Context(), order)
		if want := (payment.Receipt{PaymentID: "p1", State: payment.Accepted}); got != want || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		seen := p.Requests()
		if len(seen) != 2 || seen[0].Body != `{"amount":9900}` || seen[1].Body != `{"amount":9900,"currency":"RUB","token":"one-time"}` {
			t.Fatalf("the bank has seen %+v", seen)
		}
		if h := seen[1].Header; h.Get("Idempotency-Key") != "order-7" || h.Get("Authorization") != "Bearer secret" {
			t.Errorf("headers %v", h)
		}
	})
}

// What the bank does, and what the domain hears: one error, and whether the order may have been paid.
func TestErrors(t *testing.T) {
	everything := []error{payment.ErrUnavailable, payment.ErrInDoubt, payment.ErrDeclined, payment.ErrUnknown, resilient.ErrTimeout}
	for _, c := range []struct {
		name     string
		do       func(t *testing.T, p *resilienttest.Partner, c *resilient.Client)
		pay, ask []error // of everything; nil: none of it, but an error
	}{
		{"open", func(_ *testing.T, _ *resilienttest.Partner, c *resilient.Client) { c.ForceOpen(0) },
			[]error{payment.ErrUnavailable}, []error{payment.ErrUnavailable}},
		{"full", func(t *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			resilienttest.Fill(t, p.Registry(), sber.Name)
		}, []error{payment.ErrUnavailable}, []error{payment.ErrUnavailable}},
		{"closed", func(_ *testing.T, _ *resilienttest.Partner, c *resilient.Client) { c.Close() },
			[]error{payment.ErrUnavailable}, []error{payment.ErrUnavailable}},
		{"hangs from the first request on", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			p.On("/tokens").Hang()
			p.On("/payments/p1").Hang()
		}, []error{resilient.ErrTimeout}, []error{resilient.ErrTimeout}},
		{"hangs in the payment", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) { p.On("/payments").Hang() },
			[]error{payment.ErrInDoubt, resilient.ErrTimeout}, []error{}},
		{"resets", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			p.On("/payments").Reset()
			p.On("/payments/p1").Reset()
		}, []error{payment.ErrInDoubt}, nil},
		{"opens between the two requests", func(_ *testing.T, p *resilienttest.Partner, c *resilient.Client) {
			p.On("/tokens").Do(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c.ForceOpen(0)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(201)
				_, _ = w.Write([]byte(`{"token":"x"}`))
			}))
		}, []error{}, []error{}}, // the permit and the breaker's consent are for both
		{"fails", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			p.On("/payments").Fail(500)
			p.On("/payments/p1").Fail(500)
		}, []error{payment.ErrInDoubt}, nil},
		{"has no token", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) { p.On("/tokens").Fail(500) }, nil, []error{}},
		{"declines", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			p.On("/payments").ReplyJSON(402, object{"reason": "no money"})
			p.On("/payments/p1").Fail(404)
		}, []error{payment.ErrDeclined}, []error{payment.ErrUnknown}},
		{"talks nonsense", func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			p.On("/payments").ReplyJSON(201, object{"id": "p1", "status": "lost"})
			p.On("/payments/p1").ReplyJSON(200, object{"id": "p1", "status": "lost"})
		}, []error{payment.ErrInDoubt}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, resilient.Config{}, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, client *resilient.Client) {
				check := func(what string, err error, want []error) {
					t.Helper()
					if (err == nil) != (want != nil && len(want) == 0) {
						t.Errorf("%s: %v", what, err)
					}
					for _, known := range everything {
						if errors.Is(err, known) != slices.Contains(want, known) {
							t.Errorf("%s: it is %v that %q is %q", what, errors.Is(err, known), err, known)
						}
					}
				}
				c.do(t, p, client)
				_, err := b.Pay(t.Context(), order)
				check("pay", err, c.pay)
				client.Automatic()
				if c.name == "open" {
					client.ForceOpen(0)
				}
				_, err = b.Status(t.Context(), "p1")
				check("status", err, c.ask)
			})
		})
	}
}

// A payment that was not sent is not in doubt, though the request for its token was.
func TestNotSent(t *testing.T) {
	late := resilient.Config{Retry: resilient.RetryConfig{DeadlineHeader: "X-Deadline-Ms", DeadlineFloor: time.Second}}
	inBubble(t, late, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, _ *resilient.Client) {
		p.On("/tokens").ReplyAfter(2500*time.Millisecond, 201, `{"token":"one-time"}`, "Content-Type", "application/json")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := b.Pay(ctx, order)
		if !errors.Is(err, payment.ErrUnavailable) || errors.Is(err, payment.ErrInDoubt) || len(p.Requests()) != 1 {
			t.Errorf("%v, after %d requests", err, len(p.Requests()))
		}
	})
}

// While the bank can't be asked, its last word stands in, and says that it is old.
func TestFallback(t *testing.T) {
	for name, ill := range map[string]func(t *testing.T, p *resilienttest.Partner, c *resilient.Client){
		"open": func(_ *testing.T, _ *resilienttest.Partner, c *resilient.Client) { c.ForceOpen(0) },
		"full": func(t *testing.T, p *resilienttest.Partner, _ *resilient.Client) {
			resilienttest.Fill(t, p.Registry(), sber.Name)
		},
		"hangs": func(_ *testing.T, p *resilienttest.Partner, _ *resilient.Client) { p.On("/payments/p1").Hang() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, resilient.Config{}, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, c *resilient.Client) {
				asked := time.Now()
				got, err := b.Status(t.Context(), "p1")
				if want := (payment.Status{State: payment.Settled, AsOf: asked}); got != want || err != nil {
					t.Errorf("%+v, %v", got, err)
				}
				time.Sleep(time.Minute)
				ill(t, p, c)
				got, err = b.Status(t.Context(), "p1")
				if want := (payment.Status{State: payment.Settled, AsOf: asked, Stale: true}); got != want || err != nil {
					t.Errorf("%+v, %v", got, err)
				}
				if _, err = b.Status(t.Context(), "p2"); name != "hangs" && !errors.Is(err, payment.ErrUnavailable) {
					t.Errorf("of which nothing is known: %v", err)
				}

				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if got, err = b.Status(ctx, "p1"); !errors.Is(err, context.Canceled) {
					t.Errorf("for a caller that has gone: %+v, %v", got, err)
				}
			})
		})
	}
}

// A payment is tried again with the same key.
func TestSecondAttempt(t *testing.T) {
	retry := resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2}}
	inBubble(t, retry, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, _ *resilient.Client) {
		first := true
		p.On("/payments").Do(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if first {
				first = false
				w.WriteHeader(503)
				return
			}
			w.WriteHeader(201)
			_, _ = w.Write([]byte(`{"id":"p1","status":"accepted"}`))
		}))
		if got, err := b.Pay(t.Context(), order); got.PaymentID != "p1" || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		var keys []string
		for _, r := range p.Requests() {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
		}
		if !slices.Equal(keys, []string{"", "order-7", "order-7"}) {
			t.Errorf("keys %q", keys)
		}
	})
}

// The caller's span knows the system, its breaker and what went wrong.
func TestSpan(t *testing.T) {
	inBubble(t, resilient.Config{}, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, c *resilient.Client) {
		spans := tracetest.NewSpanRecorder()
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("")
		attributes := func(f func(context.Context)) map[string]string {
			ctx, span := tracer.Start(t.Context(), "")
			f(ctx)
			span.End()
			got := map[string]string{}
			ended := spans.Ended()
			for _, a := range ended[len(ended)-1].Attributes() {
				if a.Value.Type() == attribute.STRING {
					got[string(a.Key)] = a.Value.AsString()
				}
			}
			return got
		}
		pay := func(ctx context.Context) { _, _ = b.Pay(ctx, order) }
		ask := func(ctx context.Context) { _, _ = b.Status(ctx, "p1") }
		if got := attributes(ask); got["system"] != "sber" || got["breaker"] != "closed" || len(got) != 2 {
			t.Errorf("well: %v", got)
		}
		p.On("/payments").Hang()
		if got := attributes(pay); got["timeout"] != "read" {
			t.Errorf("hangs: %v", got)
		}
		c.ForceOpen(0)
		if got := attributes(ask); got["breaker"] != "forced_open" {
			t.Errorf("open: %v", got)
		}
		c.Automatic()
		resilienttest.Fill(t, p.Registry(), sber.Name)
		if got := attributes(ask); got["bulkhead"] != "waited" {
			t.Errorf("full: %v", got)
		}
	})
}

// What is kept is bounded.
func TestLastKnownIsBounded(t *testing.T) {
	inBubble(t, resilient.Config{}, func(t *testing.T, b *sber.Bank, p *resilienttest.Partner, c *resilient.Client) {
		p.ReplyJSON(200, object{"id": "x", "status": "settled"})
		const asked = 10_050
		id := func(i int) string { return string(rune('a'+i/10_000)) + string(rune(0x4e00+i%10_000)) }
		for i := range asked {
			if _, err := b.Status(t.Context(), id(i)); err != nil {
				t.Fatal(err)
			}
		}
		c.ForceOpen(0)
		known := 0
		for i := range asked {
			if _, err := b.Status(t.Context(), id(i)); err == nil {
				known++
			}
		}
		if known != 10_000 {
			t.Errorf("%d are known", known)
		}
	})
}
