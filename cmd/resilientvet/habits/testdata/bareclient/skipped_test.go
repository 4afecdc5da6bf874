package bareclient

import (
	"net/http"
	"testing"
)

func Test(t *testing.T) {
	http.Get(bankURL)
}
