package tiny

import "testing"

func TestAll(t *testing.T) {
	if Max(1, 2) != 2 || Max(2, 1) != 2 || Shout("a", true) != "A" || Shout("a", false) != "a" || Wait(3) != 3 || Kind(1) != "int" {
		t.Fail()
	}
}
