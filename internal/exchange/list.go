package exchange

import "iter"

// A List holds the exchanges under way, oldest first. Its zero value is empty.
// It has no lock of its own, and an exchange can be in one List only.
type List struct {
	root node // first.next is the oldest
	len  int
}

type node struct {
	x          *Exchange
	prev, next *node
}

// Add puts x at the end.
func (l *List) Add(x *Exchange) {
	if l.root.next == nil {
		l.root.prev, l.root.next = &l.root, &l.root
	}
	n := &x.node
	n.x, n.prev, n.next = x, l.root.prev, &l.root
	n.prev.next, n.next.prev = n, n
	l.len++
}

// Remove takes x out.
func (l *List) Remove(x *Exchange) {
	n := &x.node
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	l.len--
}

// Len returns how many there are.
func (l *List) Len() int { return l.len }

// All yields the exchanges, oldest first.
func (l *List) All() iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		for n := l.root.next; n != nil && n != &l.root && yield(n.x); n = n.next {
		}
	}
}
