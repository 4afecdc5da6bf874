package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The colours of a chart; the first is ours.
var colours = [...]string{"#0b6e4f", "#d1495b", "#30638e", "#edae49", "#7d5ba6", "#6c757d", "#c08497"}

// A canvas is an SVG in the making.
type canvas struct {
	strings.Builder
	width, height float64
}

func newCanvas(width, height float64, title string) *canvas {
	c := &canvas{width: width, height: height}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="sans-serif" font-size="12" fill="#222">`+"\n",
		width, height, width, height)
	fmt.Fprintf(c, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", width, height) // readable on a dark page too
	c.text(12, 22, "start", title, `font-size="14" font-weight="bold"`)
	return c
}

func (c *canvas) text(x, y float64, anchor, s, attributes string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string, width float64) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, colour, width)
}

func (c *canvas) end() string {
	c.WriteString("</svg>\n")
	return c.String()
}

// A bar is one of a bar chart.
type bar struct {
	label string
	value spread
	ours  bool
}

// barChart draws horizontal bars with the quartiles as whiskers.
func barChart(title string, bars []bar) string {
	const left, right, top, step = 190, 90, 40, 26
	c := newCanvas(720, top+step*float64(len(bars))+16, title)
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value.q3)
	}
	scale := (c.width - left - right) / max(most, math.SmallestNonzeroFloat64)
	for i, b := range bars {
		y, colour := top+step*float64(i), colours[len(colours)-2]
		if b.ours {
			colour = colours[0]
		}
		c.text(left-8, y+14, "end", b.label, "")
		fmt.Fprintf(c, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", left, y+2, b.value.median*scale, step-8, colour)
		c.line(left+b.value.q1*scale, y+11, left+b.value.q3*scale, y+11, "#222", 1)
		c.text(left+b.value.q3*scale+8, y+15, "start", number(b.value.median), "")
	}
	return c.end()
}

// A series is one line of a line chart.
type series struct {
	name string
	x, y []float64
}

// lineChart draws series over logarithmic axes. Values must be above 0.
func lineChart(title, xLabel, yLabel string, all ...series) string {
	const left, right, top, bottom = 70, 170, 40, 50
	c := newCanvas(720, 340, title)
	x := newAxis(all, func(s series) []float64 { return s.x }, left, c.width-right)
	y := newAxis(all, func(s series) []float64 { return s.y }, c.height-bottom, top)
	for _, tick := range x.ticks() {
		c.line(x.at(tick), top, x.at(tick), c.height-bottom, "#ddd", 1)
		c.text(x.at(tick), c.height-bottom+16, "middle", short(tick), "")
	}
	for _, tick := range y.ticks() {
		c.line(left, y.at(tick), c.width-right, y.at(tick), "#ddd", 1)
		c.text(left-6, y.at(tick)+4, "end", short(tick), "")
	}
	c.text((left+c.width-right)/2, c.height-12, "middle", xLabel, "")
	c.text(0, 0, "middle", yLabel, fmt.Sprintf(`transform="translate(16 %.1f) rotate(-90)"`, (top+c.height-bottom)/2))
	for i, s := range all {
		colour := colours[i%len(colours)]
		var points []string
		for j := range s.x {
			px, py := x.at(s.x[j]), y.at(s.y[j])
			points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", px, py, colour)
		}
		fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		at := top + 8 + 18*float64(i)
		c.line(c.width-right+14, at, c.width-right+34, at, colour, 3)
		c.text(c.width-right+40, at+4, "start", s.name, "")
	}
	return c.end()
}

// An axis maps values to places, by their logarithm.
type axis struct{ low, high, from, to float64 }

func newAxis(all []series, values func(series) []float64, from, to float64) axis {
	a := axis{math.Inf(1), math.Inf(-1), from, to}
	for _, s := range all {
		a.low, a.high = min(a.low, slices.Min(values(s))), max(a.high, slices.Max(values(s)))
	}
	a.low, a.high = math.Floor(math.Log10(a.low)), math.Ceil(math.Log10(a.high))
	if a.low == a.high {
		a.high++
	}
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

func (a axis) ticks() (all []float64) {
	for p := a.low; p <= a.high; p++ {
		all = append(all, math.Pow(10, p))
	}
	return all
}

// short writes 1000 as 1k.
func short(x float64) string {
	switch {
	case x >= 1e6:
		return number(x/1e6) + "M"
	case x >= 1e3:
		return number(x/1e3) + "k"
	}
	return number(x)
}
