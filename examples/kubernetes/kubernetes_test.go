package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

func pod(name string) corev1.Pod {
	return corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bank"}}
}

// apiserver has one pod, and tells a watch of it; then it hangs.
var apiserver = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "true" {
		object, _ := json.Marshal(pod("api"))
		json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": json.RawMessage(object)})
		http.NewResponseController(w).Flush()
		testserver.Hang(r)
		return
	}
	json.NewEncoder(w).Encode(pod("api"))
})

// config is what a kubeconfig says: the address and the cluster's certificate.
func config(t *testing.T, url string) *rest.Config {
	t.Helper()
	cfg := &rest.Config{Host: url, QPS: -1}
	if addr, ok := strings.CutPrefix(url, "https://"); ok {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) // to learn it
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		cfg.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
	}
	return cfg
}

func get(ctx context.Context, api *kubernetes.Clientset) error {
	got, err := api.CoreV1().Pods("bank").Get(ctx, "api", metav1.GetOptions{})
	if err == nil && got.Name != "api" {
		err = errors.New("another pod")
	}
	return err
}

func TestDropIn(t *testing.T) {
	for _, protocol := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(protocol.String(), func(t *testing.T) {
			drill.Run(t, drill.Drill{
				Server: testserver.Options{Handler: apiserver, Protocol: protocol},
				Connect: func(t *testing.T, sber *resilient.Client, url string) drill.Call {
					api, err := connect(sber, config(t, url))
					if err != nil {
						t.Fatal(err)
					}
					return func(ctx context.Context) error { return get(ctx, api) }
				},
			})
		})
	}
}

// A watch is a stream: with its bounds lifted it goes on, and holds a permit until it is stopped.
func TestTrapWatch(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: apiserver}, resilient.Config{}, resilient.WithStreams(isWatch))
	api, err := connect(b.Client, config(t, b.URL()))
	if err != nil {
		t.Fatal(err)
	}
	watch := func(ctx context.Context) (stop func(), closed <-chan struct{}) {
		t.Helper()
		w, err := api.CoreV1().Pods("bank").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != "ADDED" {
			t.Errorf("%+v", e)
		}
		ended := make(chan struct{})
		go func() {
			for range w.ResultChan() {
			}
			close(ended)
		}()
		return w.Stop, ended
	}
	// The bounds of a context would end it; those of WithStreams come first.
	stop, ended := watch(resilient.WithBounds(t.Context(), resilient.Bounds{Read: 20 * time.Millisecond, Total: 40 * time.Millisecond}))
	select {
	case <-ended:
		t.Error("it ended")
	case <-time.After(200 * time.Millisecond):
	}
	b.Held(1)
	stop()
	<-ended
	b.Idle()
}

// Without a dialer of its own a config has a transport that client-go keeps for everybody: for http it is
// http.DefaultTransport, for https one for each certificate. Either would tie clients together, so Wrap refuses.
func TestTrapSharedTransport(t *testing.T) {
	wrap := func(b *drill.Bank, cfg *rest.Config) error {
		var refused error
		cfg.Wrap(func(base http.RoundTripper) http.RoundTripper {
			over, err := b.Client.Wrap(base)
			refused = err
			return over
		})
		_, err := kubernetes.NewForConfig(cfg)
		return errors.Join(refused, err)
	}
	b := drill.Open(t, testserver.Options{Handler: apiserver}, resilient.Config{})
	if err := wrap(b, config(t, b.URL())); err == nil {
		t.Error("http.DefaultTransport was taken")
	}
	first := drill.Open(t, testserver.Options{Handler: apiserver, Protocol: testserver.HTTP2}, resilient.Config{})
	second := drill.Open(t, testserver.Options{Handler: apiserver, Protocol: testserver.HTTP2}, resilient.Config{})
	if err := wrap(first, config(t, first.URL())); err != nil {
		t.Error(err)
	}
	if err := wrap(second, config(t, second.URL())); err == nil {
		t.Error("two clients share a transport")
	}
}

// It retries by itself, up to ten times, what carries a Retry-After, whatever the method.
func TestTrapRetryAfter(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	b.Default(testserver.Burst(0, 0, apiserver))
	b.Next(testserver.Status(503, "Retry-After", "0"), testserver.Status(429, "Retry-After", "0"))
	api, err := connect(b.Client, config(t, b.URL()))
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), api); err != nil {
		t.Error(err)
	}
	b.Asked(3)
}

// Timeout of the config is http.Client.Timeout: it would end watches, and is a deadline of the caller's.
func TestTrapTimeout(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.HangBeforeHeaders()}, drill.Touchy)
	cfg := config(t, b.URL())
	cfg.Timeout = 50 * time.Millisecond
	api, err := connect(b.Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.CallersDeadline(get(t.Context(), api))
}
