package config

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	maxConns = 1_000_000     // far above what a host has ports for; 10 times it is still a count
	maxCount = math.MaxInt32 // fits an int everywhere, and gobreaker's uint32
	maxTime  = int64(24 * time.Hour)
)

// fields is the table of the settings: a field of Config is one if it stands here.
var fields = describe([]*field{
	{
		name: "MaxConnsPerHost", max: maxConns,
		about: "Connections to one host: those being dialled, in use and idle together.",
	}, {
		name: "MaxIdleConnsPerHost", max: maxConns, std: "max_connections",
		about: "Connections kept for reuse, at most max_connections.",
	}, {
		name: "IdleConnTimeout", max: maxTime,
		about: "How long an unused connection is kept. At most 24h.",
	}, {
		name: "MaxResponseHeaderBytes", max: maxCount,
		about: "The size of a response's headers, in bytes.",
	}, {
		name: "Protocol", words: []string{string(HTTP1), string(HTTP2)},
		about: "http1 is HTTP/1.1 alone. http2 is HTTP/2 where the server offers it; it does not keep max_connections.",
	}, {
		name: "ConnectTimeout", max: int64(10 * time.Second),
		about: "Dialling, the TLS handshake, and a proxy's answer to CONNECT, each. At most 10s, below read_timeout.",
	}, {
		name: "ReadTimeout", max: int64(60 * time.Second),
		about: "The longest silence of the system. At most 60s, below total_timeout.",
	}, {
		name: "TotalTimeout", max: int64(5 * time.Minute),
		about: "An exchange, to the end of its body. At least 2 × connect_timeout + read_timeout, at most 5m.",
	}, {
		name: "Bulkhead.MaxConcurrent", max: maxConns, std: "0.8 × max_connections, rounded down, at least 1",
		about: "Exchanges at one time, below max_connections (1 of 1 is allowed).",
	}, {
		name: "Bulkhead.AcquireTimeout", max: int64(time.Second), none: "NoWait", zero: true,
		about: "The wait for a permit, at most 1s. 0 refuses at once.",
	}, {
		name: "Bulkhead.MaxWaiting", max: maxCount, none: "NoQueue", zero: true, std: "10 × max_concurrent",
		about: "How many may wait for a permit. 0 lets nobody wait.",
	}, {
		name: "Breaker.Window", max: maxTime, std: "30s, or 2 × total_timeout where that is more",
		about: "How far back results count for failure_ratio. At least 2 × total_timeout, at most 24h.",
	}, {
		name: "Breaker.MinRequests", max: maxCount,
		about: "The number of results in the window from which failure_ratio counts.",
	}, {
		name:  "Breaker.FailureRatio",
		about: "The share of failures, from above 0 to 1, at which the breaker opens.",
	}, {
		name: "Breaker.ConsecutiveFailures", max: maxCount, none: "Off", off: true, std: "the larger of min_requests and max_concurrent",
		about: "Failures in a row at which the breaker opens, whatever the ratio. off leaves opening to the ratio alone.",
	}, {
		name: "Breaker.OpenFor", max: maxTime,
		about: "How long an open breaker refuses before it lets probes through. At most 24h.",
	}, {
		name: "Breaker.HalfOpenProbes", max: maxCount,
		about: "The number of probes that must succeed for the breaker to close.",
	}, {
		name: "Breaker.SlowCall", max: int64(60 * time.Second), off: true,
		about: "The time to the headers from which a success counts as a failure, at most read_timeout. off counts none.",
	}, {
		name: "Breaker.FailureStatus", list: &list{statusRule, statusPattern, isStatuses},
		about: "The response statuses that are failures: codes and ranges from 100 to 999 with commas between them.",
	},
})

// describe fills in what follows from the struct.
func describe(fields []*field) []*field {
	for _, f := range fields {
		t := reflect.TypeFor[Config]()
		for part := range strings.SplitSeq(f.name, ".") {
			sf, _ := t.FieldByName(part)
			f.index = append(f.index, sf.Index...)
			f.key += "." + sf.Tag.Get("yaml")
			t = sf.Type
		}
		f.key = f.key[1:]
		f.env = strings.ToUpper(strings.ReplaceAll(f.key, ".", "_"))
	}
	return fields
}

// groups are the keys that hold settings of their own: bulkhead, breaker.
var groups = func() (keys []string) {
	for _, f := range fields {
		if group, _, nested := strings.Cut(f.key, "."); nested && !slices.Contains(keys, group) {
			keys = append(keys, group)
		}
	}
	return keys
}()

func byName(name string) *field { return find(func(f *field) bool { return f.name == name }) }

// find returns the first field that is so, or nil.
func find(is func(*field) bool) *field {
	if i := slices.IndexFunc(fields, is); i >= 0 {
		return fields[i]
	}
	return nil
}
