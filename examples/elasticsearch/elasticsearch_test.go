package elasticsearch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

var document = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"_id":"1","found":true,"_source":{}}`)
})

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: document},
		Connect: func(t *testing.T, sber *resilient.Client, url string) drill.Call {
			api, err := connect(sber, url)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				resp, err := api.Get("receipts", "1", api.Get.WithContext(ctx))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				return err
			}
		},
	})
}

// Its retries, three after 502 to 504 and after every error, have no pause unless you give them one, and repeat refusals.
func TestTrapRetry(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: document}, resilient.Config{})
	api, err := elasticsearch.New(elasticsearch.WithAddresses(b.URL()), elasticsearch.WithTransportOptions(elastictransport.WithTransport(b.Client)))
	if err != nil {
		t.Fatal(err)
	}
	b.Default(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	resp, err := api.Get("receipts", "1")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	b.Asked(4)
}

// With several nodes an error, a refusal too, marks the node as dead for a minute: so it is one client for the cluster.
func TestTrapDeadNodes(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: document}, resilient.Config{})
	pool := (*watchedPool)(nil)
	over := elasticsearch.WithTransportOptions(elastictransport.WithTransport(b.Client), elastictransport.WithDisableRetry(),
		elastictransport.WithConnectionPoolFunc(func(conns []*elastictransport.Connection, s elastictransport.Selector) elastictransport.ConnectionPool {
			p, err := elastictransport.NewConnectionPool(conns, s)
			if err != nil {
				t.Error(err)
			}
			pool = &watchedPool{ConnectionPool: p}
			return pool
		}))
	api, err := elasticsearch.New(elasticsearch.WithAddresses(b.URL(), b.URL()+"/second"), over)
	if err != nil {
		t.Fatal(err)
	}
	b.Client.ForceOpen(time.Minute)
	if _, err := api.Get("receipts", "1"); !errors.Is(err, resilient.ErrCircuitOpen) {
		t.Error(err)
	}
	if pool.failed == nil || !pool.failed.IsDead {
		t.Errorf("%+v", pool.failed)
	}
}

type watchedPool struct {
	elastictransport.ConnectionPool
	failed *elastictransport.Connection
}

func (p *watchedPool) OnFailure(c *elastictransport.Connection) error {
	p.failed = c
	return p.ConnectionPool.OnFailure(c)
}
