// Package use tests what tiny's own tests leave out.
package use

import (
	"testing"

	"example.org/tiny"
)

func TestSend(t *testing.T) {
	ch := make(chan int, 1)
	tiny.Send(ch)
	if len(ch) != 1 || <-ch != 1 {
		t.Fail()
	}
}
