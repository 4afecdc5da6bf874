package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// draft is a Config on its way from a source to the rules. Every source sets
// fields of one draft, the weakest source first, so that all of them meet the same
// parser, the same rules and the same errors.
type draft struct {
	given  Config              // what the sources set
	full   Config              // with the defaults
	at     map[*field]string   // where a field is set, if that is not where it would be
	home   func(*field) string // where a field would be set
	bad    []*field            // has a fault, so that no rule reports it again
	faults []*FieldError
}

// over returns a draft that begins with what d has, faults of d's own apart.
func (d *draft) over(home func(*field) string) draft {
	return draft{given: d.given, at: maps.Clone(d.at), bad: slices.Clone(d.bad), home: home}
}

// place returns where f is set, or would be.
func (d *draft) place(f *field) string { return cmp.Or(d.at[f], d.home(f)) }

func (d *draft) isSet(f *field) bool { return d.at[f] != "" || !f.of(&d.given).IsZero() }

// fault records one; f is nil where no single field is meant.
func (d *draft) fault(f *field, place, value, rule, remedy string) {
	name := ""
	if f != nil {
		d.bad = append(d.bad, f)
		name = f.name
	}
	d.faults = append(d.faults, &FieldError{Field: name, Place: place, Value: value, Rule: rule, Remedy: remedy})
}

// set takes a field's text from a source. Empty text is no text.
func (d *draft) set(f *field, text, place string) {
	if text == "" {
		return
	}
	if d.at == nil {
		d.at = map[*field]string{}
	}
	d.at[f] = place
	d.bad = slices.DeleteFunc(d.bad, func(b *field) bool { return b == f }) // a weaker source's fault does not matter here
	if v := f.of(&d.given); !f.parse(v, text) {
		d.fault(f, place, quote(text), f.rule(v), remedyValue)
		v.SetZero()
	}
}

// judge judges each field set by itself. A faulty one takes its default and is left
// out of the rules between fields: one mistake, one message.
func (d *draft) judge() {
	for _, f := range fields {
		if v := f.of(&d.given); !v.IsZero() && !f.allows(v) {
			d.fault(f, d.place(f), f.show(v), f.rule(v), remedyValue)
			v.SetZero()
		}
	}
}

// complete judges the fields, fills in the defaults, judges the fields together, and
// returns all faults.
func (d *draft) complete() error {
	d.judge()
	d.full = d.given
	d.full.fill()
	d.relate(&d.full)
	return join(d.faults)
}

func join(faults []*FieldError) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
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

func (d *draft) require(holds bool, rule, remedy string) bool {
	return d.check(holds, "must hold: "+rule, remedy)
}

// check records a fault unless the rule holds or a field of it has a fault of its
// own, and returns whether it holds. The fault is placed at the first of the rule's fields that
// somebody set, or at the first where it is about defaults alone. A rule may be about
// a field that it does not name.
func (d *draft) check(holds bool, rule, remedy string, about ...string) bool {
	if holds {
		return true
	}
	var named []*field
	for _, name := range about {
		named = append(named, byName(name))
	}
	rule = os.Expand(rule, func(name string) string {
		f := byName(name)
		named = append(named, f)
		if d.isSet(f) {
			return fmt.Sprintf("%s (%s)", d.place(f), f.show(f.of(&d.full)))
		}
		return fmt.Sprintf("%s (%s by default)", d.place(f), f.show(f.of(&d.full)))
	})
	remedy = os.Expand(remedy, func(name string) string {
		place := d.place(byName(name))
		return place[strings.LastIndex(place, " ")+1:] // the line in the file has been told
	})
	if !slices.ContainsFunc(named, func(f *field) bool { return slices.Contains(d.bad, f) }) {
		f := named[max(0, slices.IndexFunc(named, d.isSet))]
		d.faults = append(d.faults, &FieldError{f.name, d.place(f), f.show(f.of(&d.full)), rule, remedy})
	}
	return false
}
