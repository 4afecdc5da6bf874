package config

import (
	"cmp"
	"time"
)

// Special values of fields whose zero value already means "the default". In the
// environment NoWait and NoQueue are written 0, and Off is written off.
const (
	// NoWait as [Bulkhead.AcquireTimeout] refuses at once when no permit is free.
	NoWait time.Duration = -1
	// NoQueue as [Bulkhead.MaxWaiting] lets nobody wait for a permit.
	NoQueue int = -1
	// Off as [Breaker.ConsecutiveFailures] leaves opening to the ratio alone.
	Off int = -1
)

// Protocol is what a client may speak to its system.
type Protocol string

// The protocols.
const (
	// HTTP1 is HTTP/1.1 alone. It is the default since it is the protocol under
	// which net/http keeps MaxConnsPerHost.
	HTTP1 Protocol = "http1"
	// HTTP2 is HTTP/2 where the server offers it by ALPN, HTTP/1.1 elsewhere.
	// Under HTTP/2 net/http may open more connections than MaxConnsPerHost; the
	// bulkhead is the only true limit then.
	HTTP2 Protocol = "http2"
)

// Config is the settings of one client. The zero Config is every default, and so
// is every zero field. A Config is a value: it can be copied, compared with ==
// and printed. [Config.Complete] fills in the defaults and checks the rules.
type Config struct {
	// MaxConnsPerHost bounds the connections to one host, those being dialled, in
	// use and idle together. From 1 to 1000000; 0 means 20.
	MaxConnsPerHost int `yaml:"max_connections"`

	// MaxIdleConnsPerHost bounds the connections kept for reuse. At least 1, at most
	// MaxConnsPerHost; 0 means MaxConnsPerHost, since net/http's own 2 throws
	// connections away in every burst.
	MaxIdleConnsPerHost int `yaml:"max_keepalive_connections"`

	// IdleConnTimeout is how long an unused connection is kept. Above 0, at most 24h;
	// 0 means 50s, below what common servers allow (60s and more), so that a request
	// seldom meets a connection that the server is closing.
	IdleConnTimeout time.Duration `yaml:"idle_conn_timeout"`

	// MaxResponseHeaderBytes bounds a response's headers, in bytes. From 1 to
	// 2147483647; 0 means 1 MiB (net/http allows 10 MiB).
	MaxResponseHeaderBytes int64 `yaml:"max_response_header_bytes"`

	// MaxResponseBytes bounds a response's body, in bytes as the caller reads them: net/http
	// has undone the compression that it asked for. At most 1 TiB; 0 means no bound.
	// Streams have none.
	MaxResponseBytes int64 `yaml:"max_response_bytes"`

	// Protocol is [HTTP1] or [HTTP2]; "" means HTTP1.
	Protocol Protocol `yaml:"protocol"`

	// ConnectTimeout bounds dialling, the TLS handshake, and a proxy's answer to
	// CONNECT, each. Above 0, at most 10s, below ReadTimeout (rule TO-1: connect < read
	// < total); 0 means 1s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`

	// ReadTimeout bounds the system's silence: until the headers, and then inside each
	// read of the body. Above ConnectTimeout, at most 60s (rule TO-X3), below
	// TotalTimeout; 0 means 5s.
	ReadTimeout time.Duration `yaml:"read_timeout"`

	// TotalTimeout bounds an exchange from its admission to the end of its body. At
	// least 2 × ConnectTimeout + ReadTimeout, so that a dial, a handshake and a
	// silence each within its own bound fit into it; at most 5m, as longer transfers
	// lift it for themselves; 0 means 7s.
	TotalTimeout time.Duration `yaml:"total_timeout"`

	// Bulkhead bounds the exchanges at one time, and the queue for them.
	Bulkhead Bulkhead `yaml:"bulkhead"`
	// Breaker says when a failing system is left alone.
	Breaker Breaker `yaml:"breaker"`
	// Retry says what is repeated when it failed.
	Retry Retry `yaml:"retry"`
}

// Bulkhead is the settings of the semaphore in front of a system.
type Bulkhead struct {
	// MaxConcurrent bounds the exchanges at one time. At least 1, below
	// MaxConnsPerHost (1 of 1 is allowed); 0 means 0.8 × MaxConnsPerHost, rounded
	// down, at least 1 (rule BH-3), so that a permit finds a connection.
	MaxConcurrent int `yaml:"max_concurrent"`

	// AcquireTimeout bounds the wait for a permit. Above 0, at most 1s, or [NoWait];
	// 0 means 100ms (both rule BH-3).
	AcquireTimeout time.Duration `yaml:"acquire_timeout"`

	// MaxWaiting bounds how many wait for a permit. From 1 to 2147483647, or
	// [NoQueue]; 0 means 10 × MaxConcurrent.
	MaxWaiting int `yaml:"max_waiting"`
}

// Breaker is the settings of the circuit breaker of a system. The defaults follow
// rules CB-2 to CB-5.
type Breaker struct {
	// Window is how far back results count for FailureRatio. At least 2 × TotalTimeout,
	// since the breaker drops a result that began before its window; at most 24h; 0
	// means 30s, or 2 × TotalTimeout where that is more.
	Window time.Duration `yaml:"window"`

	// MinRequests is the number of results in the window from which FailureRatio
	// counts. From 1 to 2147483647; 0 means 10.
	MinRequests int `yaml:"min_requests"`

	// FailureRatio is the share of failures, from above 0 to 1, at which the breaker
	// opens; 0 means 0.5.
	FailureRatio float64 `yaml:"failure_ratio"`

	// ConsecutiveFailures is the number of failures without a success between them at
	// which the breaker opens, whatever the ratio. From 1 to 2147483647, or [Off]; 0
	// means the larger of MinRequests and MaxConcurrent: a bulkhead full of calls
	// that all time out opens the breaker at once.
	ConsecutiveFailures int `yaml:"consecutive_failures"`

	// OpenFor is how long an open breaker refuses before it lets probes through. Above
	// 0, at most 24h; 0 means 30s.
	OpenFor time.Duration `yaml:"open_for"`

	// HalfOpenProbes is the number of probes that must succeed for the breaker to
	// close. From 1 to 2147483647; 0 means 3.
	HalfOpenProbes int `yaml:"half_open_probes"`

	// SlowCall is the time to the headers from which a success counts as a failure. At
	// most ReadTimeout; the rule book recommends ReadTimeout / 2. 0 means off: a slow
	// success is worth more than a refusal, and the bulkhead bounds what it costs.
	SlowCall time.Duration `yaml:"slow_call"`

	// FailureStatus lists the response statuses that are failures, codes and ranges
	// from 100 to 999 with commas between them ("429,500-599"); "" means "500-599".
	// [ParseStatuses] reads it.
	FailureStatus string `yaml:"failure_status"`
}

// Complete returns c with every zero field replaced by its default, or the zero
// Config and every fault at once, each a [*FieldError] behind one [errors.Join].
// Completing a completed Config changes nothing.
func (c Config) Complete() (Config, error) {
	d := draft{given: c, home: func(f *field) string { return "Config." + f.name }}
	if err := d.complete(); err != nil {
		return Config{}, err
	}
	return d.full, nil
}

// fill sets the defaults, each after those that it is made of. Its arithmetic
// cannot overflow, since every value set is within its bounds by now.
func (c *Config) fill() {
	or(&c.MaxConnsPerHost, 20)
	or(&c.MaxIdleConnsPerHost, c.MaxConnsPerHost)
	or(&c.IdleConnTimeout, 50*time.Second)
	or(&c.MaxResponseHeaderBytes, 1<<20)
	or(&c.Protocol, HTTP1)
	or(&c.ConnectTimeout, time.Second)
	or(&c.ReadTimeout, 5*time.Second)
	or(&c.TotalTimeout, 7*time.Second)

	or(&c.Bulkhead.MaxConcurrent, share(c.MaxConnsPerHost))
	or(&c.Bulkhead.AcquireTimeout, 100*time.Millisecond)
	or(&c.Bulkhead.MaxWaiting, 10*c.Bulkhead.MaxConcurrent)

	or(&c.Breaker.Window, max(30*time.Second, 2*c.TotalTimeout))
	or(&c.Breaker.MinRequests, 10)
	or(&c.Breaker.FailureRatio, 0.5)
	or(&c.Breaker.ConsecutiveFailures, max(c.Breaker.MinRequests, c.Bulkhead.MaxConcurrent))
	or(&c.Breaker.OpenFor, 30*time.Second)
	or(&c.Breaker.HalfOpenProbes, 3)
	or(&c.Breaker.FailureStatus, "500-599")

	c.Retry.fill()
}

// share is the part of a pool that the bulkhead gives out: 0.8, in integers, since
// a float ratio can round a permit away.
func share(conns int) int { return max(1, conns*4/5) }

func or[T comparable](v *T, std T) { *v = cmp.Or(*v, std) }
