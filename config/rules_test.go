package config

import (
	"math"
	"strings"
	"testing"
	"time"
)

// ruleCases has each rule on both sides of its boundary. B-20, R-07, T-09: a
// negative value is an error everywhere but for the constants.
var ruleCases = []struct {
	name string
	in   Config
	want string // the faulty fields
}{
	{"pool 1", Config{MaxConnsPerHost: 1}, ""},
	{"pool negative", Config{MaxConnsPerHost: -1}, "MaxConnsPerHost"},
	{"pool largest", Config{MaxConnsPerHost: 1_000_000}, ""},
	{"pool too large", Config{MaxConnsPerHost: 1_000_001}, "MaxConnsPerHost"},
	{"pool does not wrap", Config{MaxConnsPerHost: math.MaxInt}, "MaxConnsPerHost"},
	{"idle as pool", Config{MaxConnsPerHost: 5, MaxIdleConnsPerHost: 5}, ""},
	{"idle above pool", Config{MaxConnsPerHost: 5, MaxIdleConnsPerHost: 6}, "MaxIdleConnsPerHost"},
	{"idle above default pool", Config{MaxIdleConnsPerHost: 21}, "MaxIdleConnsPerHost"},
	{"idle negative", Config{MaxIdleConnsPerHost: -1}, "MaxIdleConnsPerHost"},
	{"idle timeout 1ns", Config{IdleConnTimeout: 1}, ""},
	{"idle timeout negative", Config{IdleConnTimeout: -1}, "IdleConnTimeout"},
	{"idle timeout largest", Config{IdleConnTimeout: 24 * time.Hour}, ""},
	{"idle timeout too large", Config{IdleConnTimeout: 24*time.Hour + 1}, "IdleConnTimeout"},
	{"headers 1", Config{MaxResponseHeaderBytes: 1}, ""},
	{"headers negative", Config{MaxResponseHeaderBytes: -1}, "MaxResponseHeaderBytes"},
	{"headers largest", Config{MaxResponseHeaderBytes: math.MaxInt32}, ""},
	{"headers too large", Config{MaxResponseHeaderBytes: math.MaxInt32 + 1}, "MaxResponseHeaderBytes"},
	{"body 1", Config{MaxResponseBytes: 1}, ""},
	{"body negative", Config{MaxResponseBytes: -1}, "MaxResponseBytes"},
	{"body largest", Config{MaxResponseBytes: 1 << 40}, ""},
	{"body too large", Config{MaxResponseBytes: 1<<40 + 1}, "MaxResponseBytes"},
	{"http1", Config{Protocol: HTTP1}, ""},
	{"http2", Config{Protocol: HTTP2}, ""},
	{"http3", Config{Protocol: "http3"}, "Protocol"},
	{"HTTP2", Config{Protocol: "HTTP2"}, "Protocol"},

	{"connect 1ns", Config{ConnectTimeout: 1}, ""},
	{"connect negative", Config{ConnectTimeout: -1}, "ConnectTimeout"},
	{"connect largest", Config{ConnectTimeout: 10 * s, ReadTimeout: 11 * s, TotalTimeout: 31 * s}, ""},
	{"connect too large", Config{ConnectTimeout: 10*s + 1, ReadTimeout: 11 * s, TotalTimeout: 40 * s}, "ConnectTimeout"},
	{"connect below read", Config{ConnectTimeout: 2*s - 1, ReadTimeout: 2 * s}, ""},
	{"connect is read", Config{ConnectTimeout: 2 * s, ReadTimeout: 2 * s}, "ConnectTimeout"},
	{"connect alone above read", Config{ConnectTimeout: 6 * s}, "ConnectTimeout"},
	{"read alone at connect", Config{ReadTimeout: 1 * s}, "ReadTimeout"},
	{"read negative", Config{ReadTimeout: -1}, "ReadTimeout"},
	{"read largest", Config{ReadTimeout: 60 * s, TotalTimeout: 62 * s}, ""},
	{"read too large", Config{ReadTimeout: 60*s + 1, TotalTimeout: 100 * s}, "ReadTimeout"},
	{"read is total", Config{ReadTimeout: 7 * s, TotalTimeout: 7 * s}, "ReadTimeout"},
	{"read alone above total", Config{ReadTimeout: 8 * s}, "ReadTimeout"},
	{"total alone below read", Config{TotalTimeout: 5 * s}, "TotalTimeout"},
	{"total fits", Config{ConnectTimeout: 500 * ms, ReadTimeout: 2 * s, TotalTimeout: 3 * s}, ""},
	{"total does not fit", Config{ConnectTimeout: 500 * ms, ReadTimeout: 2 * s, TotalTimeout: 3*s - 1}, "TotalTimeout"},
	{"connect alone does not fit", Config{ConnectTimeout: 1*s + 1}, "ConnectTimeout"},
	{"read alone does not fit", Config{ReadTimeout: 5*s + 1}, "ReadTimeout"},
	{"total negative", Config{TotalTimeout: -1}, "TotalTimeout"},
	{"total largest", Config{TotalTimeout: 5 * time.Minute}, ""},
	{"total too large", Config{TotalTimeout: 5*time.Minute + 1}, "TotalTimeout"},
	{"times do not wrap", Config{ConnectTimeout: math.MaxInt64, ReadTimeout: math.MaxInt64, TotalTimeout: math.MaxInt64},
		"ConnectTimeout ReadTimeout TotalTimeout"},

	{"concurrent below pool", Config{MaxConnsPerHost: 2, Bulkhead: Bulkhead{MaxConcurrent: 1}}, ""},
	{"concurrent is pool", Config{MaxConnsPerHost: 2, Bulkhead: Bulkhead{MaxConcurrent: 2}}, "Bulkhead.MaxConcurrent"},
	{"concurrent 1 of 1", Config{MaxConnsPerHost: 1, Bulkhead: Bulkhead{MaxConcurrent: 1}}, ""},
	{"concurrent 2 of 1", Config{MaxConnsPerHost: 1, Bulkhead: Bulkhead{MaxConcurrent: 2}}, "Bulkhead.MaxConcurrent"},
	{"concurrent alone 19", Config{Bulkhead: Bulkhead{MaxConcurrent: 19}}, ""},
	{"concurrent alone 20", Config{Bulkhead: Bulkhead{MaxConcurrent: 20}}, "Bulkhead.MaxConcurrent"},
	{"concurrent negative", Config{Bulkhead: Bulkhead{MaxConcurrent: -1}}, "Bulkhead.MaxConcurrent"},
	{"concurrent does not wrap", Config{Bulkhead: Bulkhead{MaxConcurrent: math.MaxInt}}, "Bulkhead.MaxConcurrent"},
	{"wait largest", Config{Bulkhead: Bulkhead{AcquireTimeout: s}}, ""},
	{"wait too large", Config{Bulkhead: Bulkhead{AcquireTimeout: s + 1}}, "Bulkhead.AcquireTimeout"},
	{"wait NoWait", Config{Bulkhead: Bulkhead{AcquireTimeout: NoWait}}, ""},
	{"wait negative", Config{Bulkhead: Bulkhead{AcquireTimeout: -2}}, "Bulkhead.AcquireTimeout"},
	{"wait -1s is no NoWait", Config{Bulkhead: Bulkhead{AcquireTimeout: -s}}, "Bulkhead.AcquireTimeout"},
	{"waiting 1", Config{Bulkhead: Bulkhead{MaxWaiting: 1}}, ""},
	{"waiting NoQueue", Config{Bulkhead: Bulkhead{MaxWaiting: NoQueue}}, ""},
	{"waiting negative", Config{Bulkhead: Bulkhead{MaxWaiting: -2}}, "Bulkhead.MaxWaiting"},
	{"waiting largest", Config{Bulkhead: Bulkhead{MaxWaiting: math.MaxInt32}}, ""},
	{"waiting too large", Config{Bulkhead: Bulkhead{MaxWaiting: math.MaxInt32 + 1}}, "Bulkhead.MaxWaiting"},

	{"window of default total", Config{Breaker: Breaker{Window: 14 * s}}, ""},
	{"window too short", Config{Breaker: Breaker{Window: 14*s - 1}}, "Breaker.Window"},
	{"window too short for total", Config{TotalTimeout: 20 * s, Breaker: Breaker{Window: 30 * s}}, "Breaker.Window"},
	{"window negative", Config{Breaker: Breaker{Window: -s}}, "Breaker.Window"},
	{"window largest", Config{Breaker: Breaker{Window: 24 * time.Hour}}, ""},
	{"window too large", Config{Breaker: Breaker{Window: 24*time.Hour + 1}}, "Breaker.Window"},
	{"minimum 1", Config{Breaker: Breaker{MinRequests: 1}}, ""},
	{"minimum negative", Config{Breaker: Breaker{MinRequests: -1}}, "Breaker.MinRequests"},
	{"minimum largest", Config{Breaker: Breaker{MinRequests: math.MaxInt32}}, ""},
	{"minimum too large", Config{Breaker: Breaker{MinRequests: math.MaxInt32 + 1}}, "Breaker.MinRequests"},
	{"ratio 1", Config{Breaker: Breaker{FailureRatio: 1}}, ""},
	{"ratio tiny", Config{Breaker: Breaker{FailureRatio: math.SmallestNonzeroFloat64}}, ""},
	{"ratio above 1", Config{Breaker: Breaker{FailureRatio: math.Nextafter(1, 2)}}, "Breaker.FailureRatio"},
	{"ratio negative", Config{Breaker: Breaker{FailureRatio: -0.5}}, "Breaker.FailureRatio"},
	{"ratio -0 is 0", Config{Breaker: Breaker{FailureRatio: math.Copysign(0, -1)}}, ""},
	{"ratio NaN", Config{Breaker: Breaker{FailureRatio: math.NaN()}}, "Breaker.FailureRatio"},
	{"ratio Inf", Config{Breaker: Breaker{FailureRatio: math.Inf(1)}}, "Breaker.FailureRatio"},
	{"consecutive 1", Config{Breaker: Breaker{ConsecutiveFailures: 1}}, ""},
	{"consecutive Off", Config{Breaker: Breaker{ConsecutiveFailures: Off}}, ""},
	{"consecutive negative", Config{Breaker: Breaker{ConsecutiveFailures: -2}}, "Breaker.ConsecutiveFailures"},
	{"consecutive too large", Config{Breaker: Breaker{ConsecutiveFailures: math.MaxInt32 + 1}}, "Breaker.ConsecutiveFailures"},
	{"open 1ns", Config{Breaker: Breaker{OpenFor: 1}}, ""},
	{"open negative", Config{Breaker: Breaker{OpenFor: -1}}, "Breaker.OpenFor"},
	{"open too large", Config{Breaker: Breaker{OpenFor: 24*time.Hour + 1}}, "Breaker.OpenFor"},
	{"probes 1", Config{Breaker: Breaker{HalfOpenProbes: 1}}, ""},
	{"probes negative (B-20)", Config{Breaker: Breaker{HalfOpenProbes: -1}}, "Breaker.HalfOpenProbes"},
	{"probes too large", Config{Breaker: Breaker{HalfOpenProbes: math.MaxInt32 + 1}}, "Breaker.HalfOpenProbes"},
	{"slow is read", Config{Breaker: Breaker{SlowCall: 5 * s}}, ""},
	{"slow above read", Config{Breaker: Breaker{SlowCall: 5*s + 1}}, "Breaker.SlowCall"},
	{"slow above 60s", Config{Breaker: Breaker{SlowCall: 60*s + 1}}, "Breaker.SlowCall"},
	{"slow negative", Config{Breaker: Breaker{SlowCall: -1}}, "Breaker.SlowCall"},
	{"read below slow", Config{ReadTimeout: 2 * s, Breaker: Breaker{SlowCall: 3 * s}}, "Breaker.SlowCall"},
	{"status", Config{Breaker: Breaker{FailureStatus: "429,500-599"}}, ""},
	{"status 5xx", Config{Breaker: Breaker{FailureStatus: "5xx"}}, "Breaker.FailureStatus"},

	{"attempts 1", Config{Retry: Retry{MaxAttempts: 1}}, ""},
	{"attempts largest", Config{Retry: Retry{MaxAttempts: 5}}, ""},
	{"attempts too large", Config{Retry: Retry{MaxAttempts: 6}}, "Retry.MaxAttempts"},
	{"attempts negative", Config{Retry: Retry{MaxAttempts: -1}}, "Retry.MaxAttempts"},
	{"repeated", Config{Retry: Retry{Status: "408, 425,429,500-599"}}, ""},
	{"repeated 404", Config{Retry: Retry{Status: "404,502-504"}}, "Retry.Status"},
	{"repeated 4xx", Config{Retry: Retry{Status: "425-429"}}, "Retry.Status"},
	{"repeated 3xx", Config{Retry: Retry{Status: "307"}}, "Retry.Status"},
	{"repeated 101", Config{Retry: Retry{Status: "101"}}, "Retry.Status"},
	{"repeated 600", Config{Retry: Retry{Status: "500-600"}}, "Retry.Status"},
	{"repeated 5xx", Config{Retry: Retry{Status: "5xx"}}, "Retry.Status"},
	{"base alone", Config{Retry: Retry{BaseDelay: 5 * s}}, ""},
	{"base is max", Config{Retry: Retry{BaseDelay: 2 * s, MaxDelay: 2 * s}}, ""},
	{"base above max", Config{Retry: Retry{BaseDelay: 2*s + 1, MaxDelay: 2 * s}}, "Retry.BaseDelay"},
	{"max alone below base", Config{Retry: Retry{MaxDelay: 99 * ms}}, "Retry.MaxDelay"},
	{"base too large", Config{Retry: Retry{BaseDelay: 5*s + 1}}, "Retry.BaseDelay"},
	{"max largest", Config{Retry: Retry{MaxDelay: 5 * s}}, ""},
	{"max too large", Config{Retry: Retry{MaxDelay: 5*s + 1}}, "Retry.MaxDelay"},
	{"delay negative", Config{Retry: Retry{BaseDelay: -1, MaxDelay: -1}}, "Retry.BaseDelay Retry.MaxDelay"},
	{"elapsed largest", Config{Retry: Retry{MaxElapsed: 5 * s}}, ""},
	{"elapsed too large", Config{Retry: Retry{MaxElapsed: 5*s + 1}}, "Retry.MaxElapsed"},
	{"heeded largest", Config{Retry: Retry{MaxRetryAfter: 5 * time.Minute}}, ""},
	{"heeded too large", Config{Retry: Retry{MaxRetryAfter: 5*time.Minute + 1}}, "Retry.MaxRetryAfter"},
	{"budget 1", Config{Retry: Retry{BudgetRatio: 1}}, ""},
	{"budget above 1", Config{Retry: Retry{BudgetRatio: math.Nextafter(1, 2)}}, "Retry.BudgetRatio"},
	{"budget negative", Config{Retry: Retry{BudgetRatio: -0.1}}, "Retry.BudgetRatio"},
	{"floor largest", Config{Retry: Retry{BudgetFloor: 100}}, ""},
	{"floor too large", Config{Retry: Retry{BudgetFloor: 101}}, "Retry.BudgetFloor"},
	{"header", Config{Retry: Retry{DeadlineHeader: "X-Request-Timeout-Ms"}}, ""},
	{"header of two letters", Config{Retry: Retry{DeadlineHeader: "x-y"}}, ""},
	{"header of one word", Config{Retry: Retry{DeadlineHeader: "true"}}, "Retry.DeadlineHeader"},
	{"header with an end missing", Config{Retry: Retry{DeadlineHeader: "X-"}}, "Retry.DeadlineHeader"},
	{"header with a digit first", Config{Retry: Retry{DeadlineHeader: "500-599"}}, "Retry.DeadlineHeader"},
	{"header with a colon", Config{Retry: Retry{DeadlineHeader: "X-Deadline:"}}, "Retry.DeadlineHeader"},
	{"header with a space", Config{Retry: Retry{DeadlineHeader: " X-Deadline"}}, "Retry.DeadlineHeader"},
	{"header with a newline", Config{Retry: Retry{DeadlineHeader: "X-Deadline\n"}}, "Retry.DeadlineHeader"},
	{"header of 64", Config{Retry: Retry{DeadlineHeader: "x-" + strings.Repeat("x", 62)}}, ""},
	{"header of 65", Config{Retry: Retry{DeadlineHeader: "x-" + strings.Repeat("x", 63)}}, "Retry.DeadlineHeader"},
	{"deadline floor 1ns", Config{Retry: Retry{DeadlineFloor: 1}}, ""},
	{"deadline floor largest", Config{Retry: Retry{DeadlineFloor: 10 * s}}, ""},
	{"deadline floor too large", Config{Retry: Retry{DeadlineFloor: 10*s + 1}}, "Retry.DeadlineFloor"},
	{"deadline floor negative", Config{Retry: Retry{DeadlineFloor: -1}}, "Retry.DeadlineFloor"},

	// Several at once; one mistake is one fault.
	{"K-09", Config{ReadTimeout: 8 * s, TotalTimeout: 6 * s, IdleConnTimeout: -s, Breaker: Breaker{FailureRatio: 1.5, HalfOpenProbes: -3}},
		"IdleConnTimeout Breaker.FailureRatio Breaker.HalfOpenProbes ReadTimeout"},
	{"descending times", Config{ConnectTimeout: 9 * s, ReadTimeout: 8 * s, TotalTimeout: 7 * s}, "ConnectTimeout ReadTimeout"},
	{"bad pool hides its dependents", Config{MaxConnsPerHost: -5, MaxIdleConnsPerHost: 50, Bulkhead: Bulkhead{MaxConcurrent: 40}}, "MaxConnsPerHost"},
	{"bad total hides its dependents", Config{TotalTimeout: time.Hour, ReadTimeout: 50 * s, Breaker: Breaker{Window: s}}, "TotalTimeout"},
	{"a fault does not hide another", Config{ReadTimeout: 8 * s, Breaker: Breaker{SlowCall: 9 * s}}, "ReadTimeout Breaker.SlowCall"},
}

// B-20, R-07, T-09 and K-09: each rule, on both sides of its boundary.
func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.name, func(t *testing.T) {
			full, err := c.in.Complete()
			if got := fieldsOf(t, err); got != c.want {
				t.Errorf("faults in %q, want %q: %v", got, c.want, err)
			}
			if c.want != "" && full != (Config{}) {
				t.Errorf("%+v beside an error", full)
			}
		})
	}
}
