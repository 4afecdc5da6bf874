// Package service has each of the habits once.
package service

import (
	"net/http"
	"time"

	"github.com/resilient-go/resilient"
)

func status() (int, error) {
	resp, err := http.Get("https://bank.example/status")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

func pay(w http.ResponseWriter, r *http.Request) {
	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer sber.Close()
}

func both(shared *resilient.Client) error {
	client := shared.HTTPClient()
	client.Timeout = time.Second
	for _, get := range []func() (*http.Response, error){
		func() (*http.Response, error) { return client.Get("https://bank.example/status") },
		func() (*http.Response, error) { return client.Get("https://insurer.example/status") },
	} {
		resp, err := get()
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	http.Get("https://bank.example/warm-up") //resilient:ignore shows that it may be
	return nil
}
