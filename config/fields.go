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
	maxBody  = 1 << 40 // more than anybody waits for
)

// fields is the table of the settings: a field of Config is one if it stands here.
var fields = describe([]*field{
	{name: "MaxConnsPerHost", max: maxConns},
	{name: "MaxIdleConnsPerHost", max: maxConns, std: "max_connections"},
	{name: "IdleConnTimeout", max: maxTime},
	{name: "MaxResponseHeaderBytes", max: maxCount},
	{name: "MaxResponseBytes", max: maxBody, off: true},
	{name: "Protocol", words: []string{string(HTTP1), string(HTTP2)}},
	{name: "ConnectTimeout", max: int64(10 * time.Second)},
	{name: "ReadTimeout", max: int64(60 * time.Second)},
	{name: "TotalTimeout", max: int64(5 * time.Minute)},
	{name: "Bulkhead.MaxConcurrent", max: maxConns, std: "0.8 × max_connections, rounded down, at least 1"},
	{name: "Bulkhead.AcquireTimeout", max: int64(time.Second), none: "NoWait", zero: true},
	{name: "Bulkhead.MaxWaiting", max: maxCount, none: "NoQueue", zero: true, std: "10 × max_concurrent"},
	{name: "Breaker.Window", max: maxTime, std: "30s, or 2 × total_timeout where that is more"},
	{name: "Breaker.MinRequests", max: maxCount},
	{name: "Breaker.FailureRatio"},
	{name: "Breaker.ConsecutiveFailures", max: maxCount, none: "Off", off: true, std: "the larger of min_requests and max_concurrent"},
	{name: "Breaker.OpenFor", max: maxTime},
	{name: "Breaker.HalfOpenProbes", max: maxCount},
	{name: "Breaker.SlowCall", max: int64(60 * time.Second), off: true},
	{name: "Breaker.FailureStatus", list: &list{statusRule, isStatuses}},
	{name: "Retry.MaxAttempts", max: 5},
	{name: "Retry.PutDelete"},
	{name: "Retry.Status", list: &list{repeatedRule, isRepeated}},
	{name: "Retry.BaseDelay", max: int64(5 * time.Second)},
	{name: "Retry.MaxDelay", max: int64(5 * time.Second), std: "1s, or base_delay where that is more"},
	{name: "Retry.MaxElapsed", max: int64(5 * time.Second)},
	{name: "Retry.MaxRetryAfter", max: int64(5 * time.Minute)},
	{name: "Retry.BudgetRatio"},
	{name: "Retry.BudgetFloor", max: 100},
	{name: "Retry.Gate"},
	{name: "Retry.DeadlineHeader", list: &list{headerRule, isHeader}},
	{name: "Retry.DeadlineFloor", max: int64(10 * time.Second), off: true},
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
