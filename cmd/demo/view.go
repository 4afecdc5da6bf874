package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// A view shows the stage. Its methods are called one at a time.
type view interface {
	event(at time.Duration, what string) // a phase begins, a breaker changes
	show(snapshot)                       // ten times a second
	end(snapshot)
}

// newView returns a live view where out is a terminal, else plain lines.
func newView(out *os.File) view {
	info, err := out.Stat()
	term := os.Getenv("TERM")
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || term == "" || term == "dumb" {
		return &lines{out: out}
	}
	return &live{out: out, color: os.Getenv("NO_COLOR") == ""}
}

// lines is the view for logs: a line for each event and each second.
type lines struct {
	out  *os.File
	next time.Duration
}

func (v *lines) event(at time.Duration, what string) {
	fmt.Fprintf(v.out, "%5.1fs  -- %s\n", at.Seconds(), what)
}

func (v *lines) show(s snapshot) {
	if s.phase == warmUp {
		v.next = 0 // a new turn
		return
	}
	if s.at < v.next {
		return
	}
	v.next = s.at.Truncate(time.Second) + time.Second
	fmt.Fprintf(v.out, "%5.1fs", s.at.Seconds())
	for i, name := range systemNames {
		l := s.last[i]
		fmt.Fprintf(v.out, "  %s %3d at once %3d ok %3d refused %3d failed p99 %6s  |", name, s.active[i],
			l.outcomes[answered], l.outcomes[refused], l.outcomes[failed]+l.outcomes[turnedAway], ms(l.p99))
	}
	fmt.Fprintf(v.out, "  %d slots\n", s.slots)
}

func (v *lines) end(snapshot) {}

// live is the view for terminals. It draws over itself.
type live struct {
	out   *os.File
	color bool
	drawn int // lines of the last picture
}

func (v *live) event(time.Duration, string) {} // seen in the pictures

func (v *live) end(s snapshot) { v.show(s) }

func (v *live) show(s snapshot) {
	picture := v.picture(s)
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn) // up, to the first line
	}
	for _, line := range picture {
		b.WriteString("\r\x1b[2K" + line + "\n") // over what was there
	}
	v.drawn = len(picture)
	fmt.Fprint(v.out, b.String()) // in one piece, so that it does not flicker
}

// picture is less than 80 columns wide: a line that wraps would count twice.
func (v *live) picture(s snapshot) []string {
	lines := []string{
		v.phases(s),
		v.paint(dim, fmt.Sprintf("  %-10s %-26s %9s %8s %8s %9s", "", "exchanges at once", "answered", "refused", "failed", "p99")),
	}
	for i, name := range systemNames {
		l := s.last[i]
		bad := l.outcomes[failed] + l.outcomes[turnedAway]
		line := fmt.Sprintf("  %-10s %s %5d %7d/s %6d/s ", name, v.bar(s.active[i]), s.active[i], l.outcomes[answered], l.outcomes[refused])
		line += v.paintIf(bad > 0, red, fmt.Sprintf("%6d/s", bad))
		line += fmt.Sprintf(" %9s", ms(l.p99))
		lines = append(lines, line)
	}
	return append(lines,
		fmt.Sprintf("  %-10s %s %5d of %d slots, %d goroutines", "service", v.bar(s.slots), s.slots, slots, s.goroutines),
		"",
		v.history("sber at once", s, func(m moment) string { return level(float64(m.sber) / slots) }),
		v.history("insurance ms", s, func(m moment) string {
			return v.paintIf(m.insurance > slow, red, level(m.insurance.Seconds()/patience.Seconds()))
		}),
		v.history("breaker", s, func(m moment) string {
			switch m.breaker {
			case "open":
				return v.paint(red, "█")
			case "half_open":
				return v.paint(yellow, "▒")
			case "closed":
				return v.paint(green, "▁")
			}
			return " "
		})+v.breaker(s))
}

// slow is what nobody should wait for insurance, which is never sick.
const slow = 200 * time.Millisecond

// phases lists them, up to the one that is on.
func (v *live) phases(s snapshot) string {
	past := v.paint(dim, strings.Join(s.phases[:s.phase], " → "))
	if s.phase > 0 {
		past += " → "
	}
	return fmt.Sprintf("  %5.1fs  %s%s", s.at.Seconds(), past, v.paint(bold, s.phases[s.phase]))
}

// breaker says what sber's breaker does now.
func (v *live) breaker(s snapshot) string {
	if s.states[sber] == nil {
		return v.paint(dim, " none")
	}
	b := s.states[sber].Breaker
	if wait := time.Until(b.OpenUntil); b.State == "open" && wait > 0 {
		return fmt.Sprintf(" open %.1fs", wait.Seconds())
	}
	return " " + strings.ReplaceAll(b.State, "_", "-")
}

// bar is as long as n is large, in both runs by the same measure.
func (v *live) bar(n int) string {
	const width = 20
	full := min(width, (n*width+slots-1)/slots)
	return strings.Repeat("█", full) + v.paint(dim, strings.Repeat("·", width-full))
}

// history draws one character for each moment.
func (v *live) history(name string, s snapshot, draw func(moment) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-13s", name)
	for _, m := range s.history {
		b.WriteString(draw(m))
	}
	return b.String()
}

// level draws a share of 1.
func level(share float64) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	return string(blocks[min(len(blocks)-1, int(share*float64(len(blocks))))])
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (v *live) paint(style, s string) string {
	if !v.color {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

func (v *live) paintIf(yes bool, style, s string) string {
	if yes {
		return v.paint(style, s)
	}
	return s
}
