package drill

import (
	"io"
	"net/http"
)

// Payment answers every request with a payment that the bank's description allows.
var Payment http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"1","status":"settled"}`)
})
