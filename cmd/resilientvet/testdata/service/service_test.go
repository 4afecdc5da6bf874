package service

import (
	"net/http"
	"testing"
)

func Test(t *testing.T) {
	resp, err := http.DefaultClient.Get("https://bank.example/status")
	if err != nil {
		t.Skip(err)
	}
	resp.Body.Close()
	_, _, _ = status, pay, both
}
