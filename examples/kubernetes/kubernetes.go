// Package kubernetes has a clientset of client-go.
package kubernetes

import (
	"errors"
	"net"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/resilient-go/resilient"
)

func connect(cluster *resilient.Client, cfg *rest.Config) (*kubernetes.Clientset, error) {
	// drop-in
	var refused error
	cfg.Dial = new(net.Dialer).DialContext // else client-go takes a transport that others use, too
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper {
		over, err := cluster.Wrap(base)
		refused = err
		return over
	})
	api, err := kubernetes.NewForConfig(cfg)
	err = errors.Join(refused, err)
	// end
	return api, err
}

// isWatch is for WithStreams: client-go has no other mark for the requests that last.
func isWatch(req *http.Request) bool {
	// drop-in
	q := req.URL.Query()
	return q.Get("watch") == "true" || q.Get("follow") == "true"
	// end
}
