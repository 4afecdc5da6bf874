package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// quiet are the queries that may have no number while the demo plays, by the title of their panel, and why.
// One that has is an error too: it does not belong here.
var quiet = map[string]string{
	"Pauses before attempts": "the demo retries nothing: its quantiles are NaN",
}

// Whether what the demo plays is what an alert looks for.
type expectation int

const (
	never  expectation = iota // it is not, on any machine
	maybe                     // it is not, unless the machine stalls
	always                    // it is
)

// alerts says that of every alert, and why.
var alerts = map[string]struct {
	raised expectation
	why    string
}{
	"ResilientBreakerOpen":          {always, "sber hangs"},
	"ResilientBulkheadRefusing":     {always, "before the breaker opens"},
	"ResilientBulkheadSaturated":    {maybe, "it is full for less than a second, and the average is over minutes"},
	"ResilientSystemFailing":        {maybe, "most of the few that are sent succeed: the rest is refused"},
	"ResilientSystemSlow":           {maybe, "what hangs has no headers to wait for"},
	"ResilientBreakerFlapping":      {maybe, "one incident is not five"},
	"ResilientBreakerForcedTooLong": {never, "nobody forces it"},
	"ResilientRetryBudgetExhausted": {never, "the demo retries nothing"},
	"ResilientWouldRefuse":          {never, "the demo's clients enforce"},
	"ResilientCountsBroken":         {never, "the counts add up"},
}

// A query is one that has to be answered.
type query struct{ where, expr string }

// ask has Prometheus answer every query of the dashboard and of the alerts.
func (p *prometheus) ask(ctx context.Context, root string, from, to time.Time) error {
	text, err := os.ReadFile(filepath.Join(root, "monitoring", "dashboard.json"))
	if err != nil {
		return err
	}
	queries, err := dashboard(text)
	if err != nil {
		return fmt.Errorf("dashboard.json: %w", err)
	}
	var faults []error
	fault := func(where string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", where, err))
		}
	}
	for _, system := range []string{"sber", "insurance", "(sber|insurance)", ".*"} { // as Grafana puts them in
		for _, q := range queries {
			expr := strings.NewReplacer("$system", system, "$__rate_interval", "4s").Replace(q.expr)
			series, numbers, err := p.series(ctx, expr, from, to)
			why, isQuiet := quiet[q.where]
			switch all := system == ".*"; {
			case err != nil:
			case strings.Contains(expr, "$"):
				err = errors.New("a variable that nobody sets")
			case isQuiet && numbers > 0:
				err = fmt.Errorf("has %d numbers, and should have none: %s", numbers, why)
			case numbers == 0 && !isQuiet && (all || !strings.HasSuffix(expr, "> 0")): // a filter may leave nothing of one system
				err = fmt.Errorf("no number in %d series", series)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", expr, err)
			} else if system == ".*" {
				fmt.Printf("  %-30s %3d series, %4d numbers  %s\n", q.where, series, numbers, why)
				err = p.selectors(ctx, expr)
			}
			fault(q.where, err)
		}
	}
	for where := range quiet {
		if !slices.ContainsFunc(queries, func(q query) bool { return q.where == where }) {
			fault(where, errors.New("may be quiet, and is not on the dashboard"))
		}
	}
	fault("the variable system", p.systems(ctx))
	faults = append(faults, p.judgeAlerts(ctx, from, to)...)
	if err := errors.Join(faults...); err != nil {
		return err
	}
	fmt.Printf("%d queries of the dashboard and %d alerts: all answered\n", len(queries), len(alerts))
	return nil
}

// dashboard returns the queries of a dashboard: of its panels, and of its annotations.
func dashboard(text []byte) (all []query, err error) {
	var d struct {
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	for _, a := range d.Annotations.List {
		all = append(all, query{a.Name, a.Expr})
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		switch {
		case ids[p.ID]:
			return nil, fmt.Errorf("two panels have id %d", p.ID)
		case p.Type != "row" && len(p.Targets) == 0:
			return nil, fmt.Errorf("%s: no query", p.Title)
		}
		ids[p.ID] = true
		for _, t := range p.Targets {
			if !strings.Contains(t.Expr, `system=~"$system"`) {
				return nil, fmt.Errorf("%s: %s: does not heed the variable system", p.Title, t.Expr)
			}
			all = append(all, query{p.Title, t.Expr})
		}
	}
	for _, v := range d.Templating.List {
		if v.Name == "system" && v.Definition == "label_values(resilient_requests_started_total, system)" {
			return all, nil
		}
	}
	return nil, errors.New("the variable system is not what is tested here")
}

// systems checks what Grafana asks for label_values(resilient_requests_started_total, system).
func (p *prometheus) systems(ctx context.Context) error {
	var names []string
	err := p.call(ctx, "label/system/values", url.Values{"match[]": {"resilient_requests_started_total"}}, &names)
	if err == nil && !slices.Equal(names, []string{"insurance", "sber"}) {
		err = fmt.Errorf("has %q", names)
	}
	return err
}

var selector = regexp.MustCompile(`\b(?:resilient_\w+|up)\b(\{[^}]*\})?`)

// selectors checks that each metric that a query names exists, with its labels.
func (p *prometheus) selectors(ctx context.Context, expr string) error {
	found := selector.FindAllString(expr, -1)
	if len(found) == 0 {
		return errors.New("names no metric")
	}
	var faults []error
	for _, s := range found {
		faults = append(faults, p.exists(ctx, s))
		for _, one := range alternatives(s) {
			faults = append(faults, p.exists(ctx, one))
		}
	}
	return errors.Join(faults...)
}

var either = regexp.MustCompile(`(\w+)=~"(\w+(?:\|\w+)+)"`)

// alternatives returns a selector once for each of the words that a matcher allows: a
// word that nothing has would hide behind the others.
func alternatives(selector string) (all []string) {
	for _, m := range either.FindAllStringSubmatch(selector, -1) {
		for word := range strings.SplitSeq(m[2], "|") {
			all = append(all, strings.Replace(selector, m[0], fmt.Sprintf("%s=%q", m[1], word), 1))
		}
	}
	return all
}

// judgeAlerts checks that Prometheus has taken all rules, can evaluate them, and what they say of the demo.
func (p *prometheus) judgeAlerts(ctx context.Context, from, to time.Time) (faults []error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError string }
		}
	}
	if err := p.call(ctx, "rules", nil, &data); err != nil {
		return []error{err}
	}
	known := map[string]bool{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			known[r.Name] = true
			series, numbers, err := p.series(ctx, r.Query, from, to)
			want, listed := alerts[r.Name]
			switch {
			case err != nil:
			case r.Health != "ok":
				err = fmt.Errorf("health %s: %s", r.Health, r.LastError)
			case !listed:
				err = errors.New("nothing says whether the demo should raise it")
			case want.raised == always && numbers == 0:
				err = fmt.Errorf("the demo did not raise it, but %s: %s", want.why, r.Query)
			case want.raised == never && numbers > 0:
				err = fmt.Errorf("the demo raised it, but %s: %s", want.why, r.Query)
			}
			if err == nil {
				fmt.Printf("  %-30s %3d series, %4d numbers  %s\n", r.Name, series, numbers, want.why)
				err = p.selectors(ctx, r.Query)
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", r.Name, err))
			}
		}
	}
	for name := range alerts {
		if !known[name] {
			faults = append(faults, fmt.Errorf("%s: Prometheus has no such rule", name))
		}
	}
	return faults
}
