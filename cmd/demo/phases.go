package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/resilient-go/resilient"
)

// A phase is a part of the script.
type phase struct {
	name  string
	lasts time.Duration
	begin func(*partners) // nil: all stays as it is
}

const (
	warmUp = iota // connections are made; not measured
	healthy
	hangs
	open // so it is with resilient; without, sber just goes on hanging
	recovers
)

var script = []phase{
	warmUp:   {name: "warm-up", lasts: 500 * time.Millisecond},
	healthy:  {name: "healthy", lasts: 2500 * time.Millisecond},
	hangs:    {name: "sber hangs", lasts: time.Second, begin: (*partners).hang},
	open:     {name: "breaker open", lasts: 6 * time.Second},
	recovers: {name: "sber recovers", lasts: 3500 * time.Millisecond, begin: (*partners).heal},
}

// name returns what a phase is called with the clients of s.
func (s *stage) name(phase int) string {
	if phase == open && s.clients.guards[sber] == nil {
		return "sber still hangs"
	}
	return script[phase].name
}

// A stage is where the script is played.
type stage struct {
	partners *partners
	clients  *clients
	service  *service
	log      *record
	phase    int
	began    time.Time

	goroutines int // at most, so far
	history    []moment
}

func newStage(p *partners, c *clients) *stage {
	log := new(record)
	return &stage{partners: p, clients: c, log: log, service: newService(c, log)}
}

// play goes through the script once, with traffic, and shows it in v.
func (s *stage) play(ctx context.Context, v view) error {
	s.log.reset()
	s.began, s.history, s.goroutines = time.Now(), nil, 0

	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	traffic := make(chan struct{})
	quit := make(chan struct{})
	go func() {
		defer close(traffic)
		s.traffic(calls, quit)
	}()
	// No goroutine outlives the demo's part.
	defer func() { <-traffic }()
	defer close(quit)

	for i, p := range script {
		s.phase = i
		s.service.phase.Store(int64(i))
		if p.begin != nil {
			p.begin(s.partners)
		}
		v.event(time.Since(s.began), s.name(i))
		if err := s.watch(ctx, p.lasts, v); err != nil {
			cancel()
			return err
		}
	}
	return nil
}

// traffic sends requests to the service, never fewer because it is slow: those
// who want to pay do not know of each other. It returns when all have an answer.
func (s *stage) traffic(ctx context.Context, quit <-chan struct{}) {
	var requests sync.WaitGroup
	defer requests.Wait()
	// A Ticker drops ticks when the machine is too busy to keep up. That is
	// wanted: a burst to catch up would be the machine's doing, not sber's.
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ticker.C:
			s.log.tick(time.Since(last) - tick)
			last = time.Now()
			for n := range perTick {
				requests.Go(func() { s.service.handle(ctx, sber, n) })
				requests.Go(func() { s.service.handle(ctx, insurance, n) })
			}
		case <-quit:
			return
		}
	}
}

// watch looks at the stage while a phase lasts.
func (s *stage) watch(ctx context.Context, lasts time.Duration, v view) error {
	end := time.After(lasts)
	sample := time.NewTicker(10 * time.Millisecond)
	defer sample.Stop()
	show := time.NewTicker(100 * time.Millisecond)
	defer show.Stop()
	for {
		select {
		case <-sample.C:
			s.sample()
		case t := <-s.clients.transitions:
			v.event(time.Since(s.began), t.System+"'s breaker: "+t.From+" → "+t.To)
		case <-show.C:
			v.show(s.look())
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sample notes what changes too fast for the eye.
func (s *stage) sample() {
	s.goroutines = max(s.goroutines, runtime.NumGoroutine())
	if slot := int(time.Since(s.began) / momentLasts); slot >= len(s.history) {
		s.history = append(s.history, moment{})
	}
	m := &s.history[len(s.history)-1]
	m.sber = max(m.sber, s.active(sber))
	if g := s.clients.guards[sber]; g != nil && m.breaker != "half_open" { // the shortest of its states
		m.breaker = g.State().Breaker.State
	}
}

// active returns how many exchanges a system has now.
func (s *stage) active(of system) int {
	if g := s.clients.guards[of]; g != nil {
		return g.State().Bulkhead.Active
	}
	return s.partners.gauges[of].current()
}

// look returns what there is to be seen now.
func (s *stage) look() snapshot {
	at := time.Since(s.began)
	for i := max(0, len(s.history)-2); i < len(s.history); i++ {
		from := time.Duration(i) * momentLasts
		s.history[i].insurance = s.log.times(took, func(c call) bool {
			return c.system == insurance && c.ended >= from && c.ended < from+momentLasts
		}).quantile(1)
	}
	shot := snapshot{
		at:         at,
		phase:      s.phase,
		slots:      len(s.service.slots),
		goroutines: runtime.NumGoroutine(),
		history:    s.history,
	}
	for i := range script {
		shot.phases = append(shot.phases, s.name(i))
	}
	for i := range systems {
		of := system(i)
		shot.active[i] = s.active(of)
		shot.last[i] = s.log.lately(of)
		if g := s.clients.guards[i]; g != nil {
			shot.states[i] = new(g.State())
		}
	}
	return shot
}

// A snapshot is the stage at one moment.
type snapshot struct {
	at         time.Duration // since the script began
	phase      int
	phases     []string
	states     [systems]*resilient.State // nil without resilient
	active     [systems]int
	last       [systems]lately
	slots      int
	goroutines int
	history    []moment
}

// momentLasts is the resolution of the history.
const momentLasts = 300 * time.Millisecond

// A moment is what the live view keeps of the past.
type moment struct {
	sber      int           // exchanges with sber at once, at most
	insurance time.Duration // its slowest call
	breaker   string        // sber's
}
