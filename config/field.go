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
	list *list  // the syntax of a string

	index []int  // of the struct field, for reflection
	key   string // "bulkhead.max_waiting"
	env   string // "BULKHEAD_MAX_WAITING"
}

const (
	maxConns = 1_000_000     // far above what a host has ports for; 10 times it is still a count
	maxCount = math.MaxInt32 // fits an int everywhere, and gobreaker's uint32
	maxTime  = int64(24 * time.Hour)
)

var fields = describe([]*field{
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
	{name: "Breaker.FailureStatus", list: &list{statusRule, isStatuses}},
	{name: "Retry.MaxAttempts", max: 5},
	{name: "Retry.PutDelete"},
	{name: "Retry.Status", list: &list{repeatedRule, isRepeated}},
	{name: "Retry.BaseDelay", max: int64(5 * time.Second)},
	{name: "Retry.MaxDelay", max: int64(5 * time.Second)},
	{name: "Retry.MaxElapsed", max: int64(5 * time.Second)},
	{name: "Retry.MaxRetryAfter", max: int64(5 * time.Minute)},
	{name: "Retry.BudgetRatio"},
	{name: "Retry.BudgetFloor", max: 100},
	{name: "Retry.Gate"},
	{name: "Retry.DeadlineHeader", list: &list{headerRule, isHeader}},
	{name: "Retry.DeadlineFloor", max: int64(10 * time.Second), off: true},
})

// list is the syntax of a string that a Config holds as it was written, so that it
// stays comparable.
type list struct {
	rule   string
	allows func(string) bool
}

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

func byName(name string) *field {
	return fields[slices.IndexFunc(fields, func(f *field) bool { return f.name == name })]
}

// of returns the field of c, settable.
func (f *field) of(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(f.index)
}

// allows judges a value by itself.
func (f *field) allows(v reflect.Value) bool {
	switch x := v.Interface().(type) {
	case Protocol:
		return x == HTTP1 || x == HTTP2
	case bool:
		return true
	case string:
		return f.list.allows(x)
	case float64:
		return x > 0 && x <= 1 // false for NaN
	}
	n := v.Int()
	return n >= 1 && n <= f.max || n == -1 && f.none != ""
}

// parse sets v from text. It reports false for what is no such value, and for
// numbers below 1 that mean nothing in text (allows would take 0 for unset and −1
// for the Go constant); the upper limits are for allows to judge.
func (f *field) parse(v reflect.Value, text string) bool {
	var n int64
	var err error
	switch v.Interface().(type) {
	case bool:
		v.SetBool(text == "true")
		return text == "true" || text == "false"
	case Protocol, string:
		v.SetString(text)
		return true
	case float64:
		x, err := strconv.ParseFloat(text, 64)
		v.SetFloat(x)
		return err == nil && x != 0
	case time.Duration:
		d, e := time.ParseDuration(text)
		n, err = int64(d), e
	default:
		// Base 10, not 0 as in yaml.v3, for which 020 is sixteen.
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
	}
	switch {
	case f.off && text == "off" && f.none == "":
		n = 0
	case f.off && text == "off", f.zero && n == 0 && err == nil:
		n = -1
	case err != nil || n < 1:
		return false
	}
	v.SetInt(n)
	return true
}

// rule says what allows and parse accept for v.
func (f *field) rule(v reflect.Value) string {
	rule := fmt.Sprintf("must be a whole number from 1 to %d", f.max)
	switch v.Interface().(type) {
	case bool:
		return "must be true or false"
	case Protocol:
		return "must be http1 or http2"
	case string:
		return f.list.rule
	case float64:
		return "must be a number above 0 and at most 1"
	case time.Duration:
		rule = fmt.Sprintf("must be a duration with a unit (500ms, 1m30s), above 0s and at most %v", time.Duration(f.max))
	}
	switch {
	case f.zero:
		rule += ", or " + f.none + " in Go and 0 in text"
	case f.off:
		rule += ", or " + cmp.Or(f.none, "0") + " in Go and off in text"
	}
	return rule
}
