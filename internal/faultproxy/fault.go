package faultproxy

import (
	"math/rand/v2"
	"time"
)

// Direction is that in which bytes travel.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// A Fault is what befalls one direction of every connection. The zero Fault is
// none; the fields combine.
type Fault struct {
	Latency   time.Duration // each piece arrives so much later; pieces do not wait for one another
	Jitter    time.Duration // and up to so much more, at random; they keep their order
	Bandwidth int           // bytes in a second; 0 = as many as come
	Slice     int           // the most bytes in one write; 0 = as they come, 1 = byte by byte
	After     int           // how many bytes of each connection still pass before End
	End       End
}

// End is how a direction ends.
type End int

// The ends.
const (
	Never     End = iota
	HalfClose     // FIN to the receiver; the other direction goes on
	Cut           // FIN to both sides
	Reset         // RST to both sides
	Silence       // nothing passes, as in a black hole, until another Fault is set: then what was held back does
)

// most is how many bytes may be read at once, so that a sender feels the bandwidth.
func (f Fault) most() int {
	const all = 32 << 10
	if f.Bandwidth == 0 {
		return all
	}
	return min(all, max(1, f.Bandwidth/50))
}

func (f Fault) delay() time.Duration {
	if f.Jitter <= 0 {
		return f.Latency
	}
	return f.Latency + rand.N(f.Jitter)
}
