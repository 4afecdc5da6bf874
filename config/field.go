package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field describes one setting. The path in Config and the limits are written down
// once, in the table; the names in files and in the environment follow from the
// struct's yaml tags.
type field struct {
	name  string   // path in Config: "Bulkhead.MaxWaiting"
	max   int64    // largest number or duration; the smallest is 1
	none  string   // the Go constant of value -1 that is allowed too, if any
	zero  bool     // an explicit 0 in text means none
	off   bool     // the word off in text means none, or 0 where there is no none
	words []string // what a string may be, unless
	list  *list    // it has a syntax of its own
	std   string   // the default, in the words of a file, where it depends on other settings

	index []int  // of the struct field, for reflection
	key   string // "bulkhead.max_waiting"
	env   string // "BULKHEAD_MAX_WAITING"
}

// list is the syntax of a string that a Config holds as it was written, so that it
// stays comparable.
type list struct {
	rule   string
	allows func(string) bool
}

// of returns the field of c, settable.
func (f *field) of(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(f.index)
}

// allows judges a value by itself.
func (f *field) allows(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		return true
	case reflect.String:
		return f.list != nil && f.list.allows(v.String()) || slices.Contains(f.words, v.String())
	case reflect.Float64:
		return v.Float() > 0 && v.Float() <= 1 // false for NaN
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
		return err == nil && x != 0 && !strings.ContainsAny(text, "xX") // decimal, as all numbers
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

// format writes v as parse reads it.
func (f *field) format(v reflect.Value) string {
	switch {
	case !v.CanInt():
	case f.none != "" && v.Int() == -1 && f.zero:
		return "0"
	case f.off && (f.none != "" && v.Int() == -1 || v.Int() == 0):
		return "off"
	}
	return fmt.Sprint(v.Interface())
}

// show formats v for a message.
func (f *field) show(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return quote(v.String())
	}
	return f.format(v)
}

// rule says what allows and parse accept for v.
func (f *field) rule(v reflect.Value) string {
	rule := fmt.Sprintf("must be a whole number from 1 to %d", f.max)
	switch v.Interface().(type) {
	case bool:
		return "must be true or false"
	case Protocol, string:
		if f.list != nil {
			return f.list.rule
		}
		return "must be " + strings.Join(f.words, " or ")
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
