package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
)

// draft is a Config on its way from a source to the rules. Every source sets
// fields of one draft, the weakest source first, so that all of them meet the same
// parser, the same rules and the same errors.
type draft struct {
	given Config              // what the sources set
	full  Config              // with the defaults
	place func(*field) string // where a field is set, or would be
	bad   []*field            // has a fault, so that no rule reports it again
	errs  []error
}

func (d *draft) fault(f *field, place, value, rule, remedy string) {
	d.bad = append(d.bad, f)
	d.errs = append(d.errs, &FieldError{Field: f.name, Place: place, Value: value, Rule: rule, Remedy: remedy})
}

// set takes a field's text from a source. Empty text is no text.
func (d *draft) set(f *field, text string) {
	if text == "" {
		return
	}
	if v := f.of(&d.given); !f.parse(v, text) {
		d.fault(f, d.place(f), quote(text), f.rule(v), remedyValue)
		v.SetZero()
	}
}

// complete judges each field set, fills in the defaults, and judges the fields
// together. A faulty field takes its default and is left out of the latter: one
// mistake, one message.
func (d *draft) complete() (Config, error) {
	d.full = d.given
	for _, f := range fields {
		v := f.of(&d.full)
		if !v.IsZero() && !f.allows(v) {
			d.fault(f, d.place(f), d.show(f), f.rule(v), remedyValue)
			v.SetZero()
		}
	}
	d.full.fill()
	d.relate(&d.full)
	if len(d.errs) > 0 {
		return Config{}, errors.Join(d.errs...)
	}
	return d.full, nil
}

// relate judges the fields together. The fields of a rule stand in ${}.
func (d *draft) relate(c *Config) {
	d.require(c.MaxIdleConnsPerHost <= c.MaxConnsPerHost, "${MaxIdleConnsPerHost} ≤ ${MaxConnsPerHost}",
		"lower ${MaxIdleConnsPerHost}, or raise ${MaxConnsPerHost}")

	least := 2*c.ConnectTimeout + c.ReadTimeout
	raise := fmt.Sprintf("raise ${TotalTimeout} to at least %v, or lower ${ReadTimeout}", least)
	connect := d.require(c.ConnectTimeout < c.ReadTimeout, "${ConnectTimeout} < ${ReadTimeout}",
		"lower ${ConnectTimeout}, or raise ${ReadTimeout}")
	read := d.require(c.ReadTimeout < c.TotalTimeout, "${ReadTimeout} < ${TotalTimeout}", raise)
	if connect && read { // else it would only repeat them
		d.require(c.TotalTimeout >= least, "${TotalTimeout} ≥ 2 × ${ConnectTimeout} + ${ReadTimeout}", raise+" or ${ConnectTimeout}")
	}

	free := c.Bulkhead.MaxConcurrent < c.MaxConnsPerHost || c.MaxConnsPerHost == 1 && c.Bulkhead.MaxConcurrent == 1
	d.require(free, "${Bulkhead.MaxConcurrent} < ${MaxConnsPerHost}",
		fmt.Sprintf("lower ${Bulkhead.MaxConcurrent} to %d (0.8 of the pool), or raise ${MaxConnsPerHost}", share(c.MaxConnsPerHost)))
	d.require(c.Breaker.Window >= 2*c.TotalTimeout, "${Breaker.Window} ≥ 2 × ${TotalTimeout}",
		fmt.Sprintf("raise ${Breaker.Window} to at least %v, or lower ${TotalTimeout}", 2*c.TotalTimeout))
	d.require(c.Breaker.SlowCall <= c.ReadTimeout, "${Breaker.SlowCall} ≤ ${ReadTimeout}",
		fmt.Sprintf("lower ${Breaker.SlowCall} to %v (half of it), or raise ${ReadTimeout}", c.ReadTimeout/2))
	d.require(c.Retry.BaseDelay <= c.Retry.MaxDelay, "${Retry.BaseDelay} ≤ ${Retry.MaxDelay}",
		"lower ${Retry.BaseDelay}, or raise ${Retry.MaxDelay}")
}

// require records a fault unless the rule holds or a field of it has a fault of its
// own, and returns holds. The fault is placed at the first of the rule's fields that
// somebody set, for defaults alone break no rule.
func (d *draft) require(holds bool, rule, remedy string) bool {
	var named []*field
	rule = os.Expand(rule, func(name string) string {
		f := byName(name)
		named = append(named, f)
		if d.isSet(f) {
			return fmt.Sprintf("%s (%s)", d.place(f), d.show(f))
		}
		return fmt.Sprintf("%s (%s by default)", d.place(f), d.show(f))
	})
	remedy = os.Expand(remedy, func(name string) string { return d.place(byName(name)) })
	if !holds && !slices.ContainsFunc(named, func(f *field) bool { return slices.Contains(d.bad, f) }) {
		f := named[max(0, slices.IndexFunc(named, d.isSet))]
		d.errs = append(d.errs, &FieldError{f.name, d.place(f), d.show(f), "must hold: " + rule, remedy})
	}
	return holds
}

func (d *draft) isSet(f *field) bool { return !f.of(&d.given).IsZero() }

// show formats the value of f, with the defaults in place.
func (d *draft) show(f *field) string {
	v := f.of(&d.full)
	if v.Kind() == reflect.String {
		return quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}
