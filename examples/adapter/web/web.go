// Package web is what the service's own callers call: it turns requests into
// calls of the domain, and errors into what a caller can act on.
package web

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/adapter/payment"
)

// Handler returns the service's API over a bank.
func Handler(bank payment.Bank, log *slog.Logger) http.Handler {
	h := handler{bank, log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", h.pay)
	mux.HandleFunc("GET /payments/{id}", h.status)
	return mux
}

type handler struct {
	bank payment.Bank
	log  *slog.Logger
}

type order struct {
	Order   string `json:"order"`
	Kopecks int64  `json:"kopecks"`
}

type receipt struct {
	Payment string        `json:"payment"`
	State   payment.State `json:"state"`
}

type status struct {
	State payment.State `json:"state"`
	AsOf  time.Time     `json:"as_of"`
	Stale bool          `json:"stale,omitempty"`
}

type problem struct {
	Error string `json:"error"`
}

func (h handler) pay(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || o.Order == "" || o.Kopecks <= 0 {
		answer(w, http.StatusBadRequest, problem{"an order has an ID and kopecks"})
		return
	}
	// The caller's context: when the caller goes, so does the call of the bank.
	got, err := h.bank.Pay(r.Context(), payment.Order{ID: o.Order, Kopecks: o.Kopecks})
	if err != nil {
		h.fail(w, r, err)
		return
	}
	answer(w, http.StatusCreated, receipt{got.PaymentID, got.State})
}

func (h handler) status(w http.ResponseWriter, r *http.Request) {
	got, err := h.bank.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, status{got.State, got.AsOf, got.Stale})
}

// fail answers what a caller can act on: pay less, come again in so many seconds, or ask what became of it.
func (h handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	for known, code := range map[error]int{payment.ErrDeclined: http.StatusPaymentRequired, payment.ErrUnknown: http.StatusNotFound} {
		if errors.Is(err, known) {
			answer(w, code, problem{known.Error()})
			return
		}
	}
	code, retryAfter, ok := resilient.StatusCode(err) // 503, 504 or 502
	if !ok && r.Context().Err() != nil {
		return // the caller has gone
	}
	if !ok {
		h.log.ErrorContext(r.Context(), "a fault of ours", "err", err)
		answer(w, http.StatusInternalServerError, problem{"a fault of ours"})
		return
	}
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	// No more than that: an error's own text is for our people. One line for each
	// would be thousands while the breaker is open, whose transitions are logged.
	h.log.DebugContext(r.Context(), "the bank failed", "code", code, "err", err)
	text := "the bank does not answer as it should"
	for _, known := range []error{payment.ErrUnavailable, payment.ErrInDoubt} {
		if errors.Is(err, known) {
			text = known.Error()
		}
	}
	answer(w, code, problem{text})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // its error is that the caller has gone
}
