package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// A section is a part of the report: what one measurement found.
type section struct {
	title  string
	body   strings.Builder // Markdown
	charts map[string]string
	goals  []goal
}

func newSection(title string) *section {
	return &section{title: title, charts: map[string]string{}}
}

// para adds a paragraph.
func (s *section) para(format string, args ...any) {
	fmt.Fprintf(&s.body, format+"\n\n", args...)
}

// table adds a table; the first row is its head.
func (s *section) table(rows ...[]string) {
	for i, row := range rows {
		fmt.Fprintf(&s.body, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&s.body, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	s.body.WriteString("\n")
}

// chart adds a picture: an SVG, which goes into a file of that name.
func (s *section) chart(name, what, svg string) {
	s.charts[name+".svg"] = svg
	fmt.Fprintf(&s.body, "![%s](performance/%s.svg)\n\n", what, name)
}

// A goal is something that was asked for, and what came of it.
type goal struct {
	what, limit, got string
	met              bool
	remedy           string // what was tried, and what it would take; told where it is not met
}

// atMost adds the goal that a count is not above a limit.
func (s *section) atMost(what string, got, limit float64, unit, remedy string) {
	s.goals = append(s.goals, goal{what, "≤ " + number(limit) + unit, number(got) + unit, math.Round(got*100) <= limit*100, remedy})
}

// ratioAtMost adds the goal that the median of a ratio is not above a limit.
func (s *section) ratioAtMost(what string, got spread, limit float64, of, remedy string) {
	s.goals = append(s.goals, goal{what, fmt.Sprintf("≤ %.2f × %s", limit, of), got.String(), got.median <= limit, remedy})
}

// A document is all sections.
type document struct {
	head     string // what it is, how it was made
	sections []*section
}

func (d *document) goals() (all []goal) {
	for _, s := range d.sections {
		all = append(all, s.goals...)
	}
	return all
}

// markdown returns the report.
func (d *document) markdown() string {
	var b strings.Builder
	b.WriteString(d.head)
	b.WriteString("\n## Goals\n\n| what | goal | measured | |\n|---|---|---|---|\n")
	var open []goal
	for _, g := range d.goals() {
		verdict := "met"
		if !g.met {
			verdict = "**not met**"
			open = append(open, g)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.what, g.limit, g.got, verdict)
	}
	b.WriteString("\nA ratio is the median of the ratios of its rounds, with the quartiles; counts are exact.\n\n")
	for _, g := range open {
		fmt.Fprintf(&b, "- *Not met: %s* (%s, measured %s). %s\n", g.what, g.limit, g.got, g.remedy)
	}
	if open != nil {
		b.WriteString("\n")
	}
	for _, s := range d.sections {
		fmt.Fprintf(&b, "## %s\n\n%s", s.title, s.body.String())
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// write writes performance.md and its charts into dir.
func (d *document) write(dir string) error {
	charts := filepath.Join(dir, "performance")
	if err := os.MkdirAll(charts, 0o755); err != nil {
		return err
	}
	for _, s := range d.sections {
		for name, svg := range s.charts {
			if err := os.WriteFile(filepath.Join(charts, name), []byte(svg), 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "performance.md"), []byte(d.markdown()), 0o644)
}

// number writes a figure with as many digits as are worth reading.
func number(x float64) string {
	switch a := math.Abs(x); {
	case math.Abs(x-math.Round(x)) < 0.005 && a < 1e7:
		return fmt.Sprintf("%d", int64(math.Round(x)))
	case a >= 1000:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// nanos writes a time given in ns.
func nanos(ns float64) string {
	switch {
	case ns >= 1e9:
		return number(ns/1e9) + " s"
	case ns >= 1e6:
		return number(ns/1e6) + " ms"
	case ns >= 1e4:
		return number(ns/1e3) + " µs"
	}
	return fmt.Sprintf("%.0f ns", ns)
}
