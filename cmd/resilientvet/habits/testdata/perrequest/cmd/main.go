// Cmd is a command: it may make, use and let go.
package main

import (
	"net/http"

	"github.com/resilient-go/resilient"
)

func main() {
	client, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	req, _ := http.NewRequest("GET", "https://bank.example", nil)
	client.Do(req)
	run([]string{"https://bank.example"})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = &http.Transport{} // want `this http.Transport, a pool of connections, is made for each request`
	})
}

func run(urls []string) {
	client := &http.Client{}
	client.Get(urls[0])
	for _, url := range urls {
		client := &http.Client{} // want `this http.Client is made for each call`
		client.Get(url)
	}
}
