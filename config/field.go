package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field describes one setting. The path in Config and the limits are written down
// once, below; the names in files and in the environment follow from the struct's
// yaml tags.
type field struct {
	name string // path in Config: "Bulkhead.MaxWaiting"
	max  int64  // largest number or duration; the smallest is 1
	none string // the Go constant of value -1 that is allowed too, if any
	zero bool   // an explicit 0 in text means none
	off  bool   // the word off in text means none, or 0 where there is no none

	index []int  // of the struct field, for reflection
	key   string // "bulkhead.max_waiting"
	env   string // "BULKHEAD_MAX_WAITING"
}

const (
	maxConns = 1_000_000     // far above what a host has ports for; 10 times it is still a count
	maxCount = math.MaxInt32 // fits an int everywhere, and gobreaker's uint32
	maxTime  = int64(24 * time.Hour)
)

var fields = describe([]field{
	{name: "MaxConnsPerHost", max: maxConns},
	{name: "MaxIdleConnsPerHost", max: maxConns},
	{name: "IdleConnTimeout", max: maxTime},
	{name: "MaxResponseHeaderBytes", max: maxCount},
	{name: "Protocol"},
	{name: "ConnectTimeout", max: int64(10 * time.Second)},
	{name: "ReadTimeout", max: int64(60 * time.Second)},
	{name: "TotalTimeout", max: int64(5 * time.Minute)},
	{name: "Bulkhead.MaxConcurrent", max: maxConns},
	{name: "Bulkhead.AcquireTimeout", max: int64(time.Second), none: "NoWait", zero: true},
	{name: "Bulkhead.MaxWaiting", max: maxCount, none: "NoQueue", zero: true},
	{name: "Breaker.Window", max: maxTime},
	{name: "Breaker.MinRequests", max: maxCount},
	{name: "Breaker.FailureRatio"},
	{name: "Breaker.ConsecutiveFailures", max: maxCount, none: "Off", off: true},
	{name: "Breaker.OpenFor", max: maxTime},
	{name: "Breaker.HalfOpenProbes", max: maxCount},
	{name: "Breaker.SlowCall", max: int64(60 * time.Second), off: true},
	{name: "Breaker.FailureStatus"},
})

// describe fills in what follows from the struct.
func describe(fields []field) []*field {
	out := make([]*field, len(fields))
	for i, f := range fields {
		var keys []string
		t := reflect.TypeFor[Config]()
		for part := range strings.SplitSeq(f.name, ".") {
			sf, _ := t.FieldByName(part)
			f.index = append(f.index, sf.Index...)
			keys = append(keys, sf.Tag.Get("yaml"))
			t = sf.Type
		}
		f.key = strings.Join(keys, ".")
		f.env = strings.ToUpper(strings.Join(keys, "_"))
		out[i] = &f
	}
	return out
}

func byName(name string) *field {
	return fields[slices.IndexFunc(fields, func(f *field) bool { return f.name == name })]
}

// of returns the field of c, settable.
func (f *field) of(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(f.index)
}

// check judges a value by itself. It returns no rule if the value is allowed.
func (f *field) check(v reflect.Value) (rule, remedy string) {
	ok := false
	switch x := v.Interface().(type) {
	case Protocol:
		ok = x == HTTP1 || x == HTTP2
	case string:
		_, err := ParseStatuses(x)
		ok = err == nil
	case float64:
		ok = x > 0 && x <= 1 // false for NaN
	default:
		n := v.Int()
		ok = n >= 1 && n <= f.max || n == -1 && f.none != ""
	}
	if ok {
		return "", ""
	}
	return f.rule(v)
}

// parse sets v from text. It refuses what is no such value, and numbers below 1
// that mean nothing in text (check would take 0 for unset and −1 for the Go
// constant); the upper limits are for check to judge.
func (f *field) parse(v reflect.Value, text string) (rule, remedy string) {
	var n int64
	var err error
	switch v.Interface().(type) {
	case Protocol, string:
		v.SetString(text)
		return "", ""
	case float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || x == 0 {
			return f.rule(v)
		}
		v.SetFloat(x)
		return "", ""
	case time.Duration:
		if bare, err := strconv.ParseUint(text, 10, 64); err == nil && bare != 0 {
			return "must have a unit", fmt.Sprintf("write %ss or %sms", text, text)
		}
		var d time.Duration
		d, err = time.ParseDuration(text)
		n = int64(d)
	default:
		// Base 10, not 0 as in yaml.v3, for which 020 is sixteen.
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
	}
	switch {
	case f.off && text == "off":
		n = 0
		if f.none != "" {
			n = -1
		}
	case err == nil && n == 0 && f.zero:
		n = -1
	case err != nil || n < 1:
		return f.rule(v)
	}
	v.SetInt(n)
	return "", ""
}

// rule says what check asks of the type and limits of v, and what to do.
func (f *field) rule(v reflect.Value) (rule, remedy string) {
	remedy = "choose one of these, or leave it unset for the default"
	switch v.Interface().(type) {
	case Protocol:
		return "must be http1 or http2", remedy
	case string:
		return statusRule, statusRemedy
	case float64:
		return "must be a number above 0 and at most 1", "write a half as 0.5, or leave it unset for the default"
	case time.Duration:
		rule = fmt.Sprintf("must be a duration with a unit, above 0s and at most %v", time.Duration(f.max))
	default:
		rule = fmt.Sprintf("must be a whole number from 1 to %d", f.max)
	}
	switch {
	case f.zero:
		rule += ", or " + f.none + " in Go and 0 in text"
	case f.off:
		rule += ", or " + cmp.Or(f.none, "0") + " in Go and off in text"
	}
	return rule, remedy
}
