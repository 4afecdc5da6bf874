package resilienttest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/resilient-go/resilient"
)

// checkout is what the examples test: a handler of a shop that has a bank take the money.
func checkout(bankURL string, bank *resilient.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, bankURL+"/payments", r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		resp, err := bank.Do(req)
		if code, retryAfter, failed := resilient.StatusCode(err); failed {
			if retryAfter > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			}
			http.Error(w, "the bank does not answer", code)
			return
		}
		if err != nil {
			return // the customer has gone
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

// pay sends an order to a checkout.
func pay(t *testing.T, shop http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	shop.ServeHTTP(w, httptest.NewRequest("POST", "/", nil).WithContext(t.Context()))
	return w
}
