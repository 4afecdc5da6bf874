// Package perrequest makes clients once, and over and over.
package perrequest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/transport"
	"habits.example/bank"
)

type server struct {
	reg     *resilient.Registry
	cfg     resilient.Config
	sber    *resilient.Client
	clients map[string]*http.Client
	cache   sync.Map
	once    sync.Once
}

func (s *server) pay(w http.ResponseWriter, r *http.Request) {
	client, err := resilient.NewClient("sber", s.cfg) // want `this client, with its bulkhead, breaker and pool, is made for each request \(ISO-1\): make it once, where the service starts, and keep it`
	if err != nil {
		return
	}
	defer client.Close()
	other, _ := s.reg.NewClient("insurer", s.cfg, resilient.WithBase(&http.Transport{})) // want `this client, with its`
	bank.NewClient("https://bank.example", bank.WithHTTPClient(other))
	plain := &http.Client{Timeout: time.Second} // want `this http.Client is made for each request`
	plain.Do(r)
	pooled := &http.Client{Transport: &http.Transport{}} // want `this http.Client is made for each request`
	pooled.Do(r)
	pool := http.DefaultTransport.(*http.Transport).Clone() // want `this http.Transport, a pool of connections, is made for each request`
	pool.RoundTrip(r)
	cleanhttp.DefaultClient().Do(r)                        // want `this http.Client is made for each request`
	(&http.Client{Transport: transport.Base(s.cfg)}).Do(r) // want `this http.Client is made for each request`

	http.Error(w, "", 500)
}

func (s *server) forRequest(r *http.Request) *http.Client {
	return &http.Client{} // want `this http.Client is made for each request`
}

func (s *server) routes(mux *http.ServeMux, cfg resilient.Config) error {
	sber, err := resilient.NewClient("sber", cfg)
	if err != nil {
		return err
	}
	mux.HandleFunc("/pay", func(w http.ResponseWriter, r *http.Request) {
		resp, err := sber.HTTPClient().Do(r) // no more than a struct
		_ = err
		resp.Body.Close()
		go func() {
			_ = &http.Transport{} // want `this http.Transport, a pool`
		}()
	})
	return nil
}

// Kept for those that come after.
func (s *server) lazy(w http.ResponseWriter, r *http.Request) {
	var err error
	if s.sber == nil {
		s.sber, err = resilient.NewClient("sber", s.cfg)
	}
	client, ok := s.clients[r.Host]
	if !ok {
		client = &http.Client{}
		s.clients[r.Host] = client
	}
	other := &http.Client{Transport: &http.Transport{}}
	s.clients["other"] = other
	pool := &http.Transport{}
	s.clients["pool"] = &http.Client{Transport: pool}
	found, _ := resilient.NewClient("found", s.cfg)
	s.cache.LoadOrStore(r.Host, found)
	s.once.Do(func() {
		first, _ := resilient.NewClient("first", s.cfg)
		first.Do(r)
	})
	over := &http.Client{Transport: s.sber} // a struct over what is kept
	over.Do(r)
	_ = err
}

type adapter struct{ client *resilient.Client }

func (a *adapter) rate(ctx context.Context, req *http.Request) error { return nil }

// What is made, sent with and let go.
func charge(ctx context.Context, cfg resilient.Config, url string) error {
	client, err := resilient.NewClient("sber", cfg) // want `this client, with its bulkhead, breaker and pool, is made for each call, and let go after it \(ISO-1\): make it once`
	if err != nil {
		return err
	}
	defer func() { client.Close() }()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	plain := &http.Client{} // want `this http.Client is made for each call`
	plain.Timeout = time.Second
	if plain != nil {
		plain.Get(url)
	}
	pool := &http.Transport{} // want `this http.Transport, a pool of connections, is made for each call`
	over := http.Client{Transport: pool}
	over.Get(url)
	(&http.Client{}).Get(url)                   // want `this http.Client is made for each call`
	exec, _ := resilient.NewClient("exec", cfg) // want `is made for each call`
	_, err = resilient.Execute(ctx, exec, func(context.Context) (int, error) { return 0, nil })
	return err
}

// A constructor makes, and gives to what lives on.
func newAdapter(ctx context.Context, cfg resilient.Config, url string) (*adapter, func() error, error) {
	client, err := resilient.NewClient("sber", cfg)
	if err != nil {
		return nil, nil, err
	}
	if resp, err := client.HTTPClient().Get(url); err == nil { // that it answers
		resp.Body.Close()
	}
	probe, _ := resilient.NewClient("probe", cfg)
	check := func() error { _, err := probe.HTTPClient().Get(url); return err }
	worker, _ := resilient.NewClient("worker", cfg)
	go func() { worker.HTTPClient().Get(url) }()
	unused, _ := resilient.NewClient("unused", cfg)
	unused.Close()
	return &adapter{client}, check, nil
}

func all(cfg resilient.Config, names []string) (map[string]*resilient.Client, error) {
	clients := map[string]*resilient.Client{}
	for _, name := range names {
		client, err := resilient.NewClient(name, cfg)
		if err != nil {
			return nil, err
		}
		clients[name] = client
	}
	return clients, nil
}

func init() {
	once := &http.Client{}
	once.Get("https://bank.example/warm-up")
}

var warm = sync.OnceValue(func() error {
	c := &http.Client{}
	_, err := c.Get("https://bank.example/warm-up")
	return err
})
