package tested

import (
	"net/http"
	"testing"
)

func Test(t *testing.T) {
	http.Get("https://bank.example/") // want `http.Get uses`
}
