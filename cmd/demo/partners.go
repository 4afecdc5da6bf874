package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/resilient-go/resilient/cmd/demo/api"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A system is one of the partners.
type system int

const (
	sber system = iota
	insurance
	systems = 2
)

var systemNames = [systems]string{"sber", "insurance"}

// How long a partner takes to answer when it is well.
var latency = [systems]time.Duration{30 * time.Millisecond, 40 * time.Millisecond}

// partners are the external systems, on sockets of the loopback interface.
type partners struct {
	servers [systems]*testserver.Server
	gauges  [systems]*gauge // of the exchanges that the service's transports have with them
}

func startPartners() (*partners, error) {
	p := new(partners)
	for i := range p.servers {
		s, err := testserver.Start(testserver.Options{Handler: testserver.After(latency[i], answers())})
		if err != nil {
			p.close()
			return nil, err
		}
		p.servers[i], p.gauges[i] = s, new(gauge)
	}
	return p, nil
}

// answers is what both partners do, as openapi.yaml has it.
func answers() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusCreated, api.Payment{Id: "1", Status: api.Accepted})
	})
	mux.HandleFunc("GET /payments/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, api.Payment{Id: r.PathValue("id"), Status: api.Settled})
	})
	mux.HandleFunc("GET /policies/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, api.Policy{Id: r.PathValue("id"), Holder: "A. Ivanova"})
	})
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone has no use for it
}

// hang has sber take requests and say nothing.
func (p *partners) hang() {
	well := answers()
	p.servers[sber].Default(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testserver.Hang(r)
		well.ServeHTTP(w, r)
	}))
}

// heal has sber answer again, those that have waited first.
func (p *partners) heal() {
	p.servers[sber].Default(testserver.After(latency[sber], answers()))
	p.servers[sber].Release()
}

// host returns what the URLs of a system's requests have as their host.
func (p *partners) host(of system) string {
	return strings.TrimPrefix(p.servers[of].URL(), "http://")
}

func (p *partners) close() {
	for _, s := range p.servers {
		if s != nil {
			s.Close()
		}
	}
}
