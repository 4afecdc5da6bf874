package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// get does a GET. An answer without success is an error, with what it says.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp.Body, nil
}

// call asks Prometheus's HTTP API.
func (p *prometheus) call(ctx context.Context, path string, args url.Values, data any) error {
	body, err := get(ctx, "http://"+p.address+"/api/v1/"+path+"?"+args.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	answer := struct {
		Status string
		Error  string
		Data   any
	}{Data: data}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

// want returns an error if there is nothing to be had for a query now.
func (p *prometheus) want(ctx context.Context, query string) error {
	var data struct{ Result []any }
	if err := p.call(ctx, "query", url.Values{"query": {query}}, &data); err != nil {
		return err
	}
	if len(data.Result) == 0 {
		return fmt.Errorf("nothing for %s", query)
	}
	return nil
}

// series returns how many series and how many numbers a query has, each second from one time to another.
func (p *prometheus) series(ctx context.Context, query string, from, to time.Time) (series, numbers int, err error) {
	var data struct {
		Result []struct{ Values [][2]any }
	}
	at := func(t time.Time) string { return t.Format(time.RFC3339Nano) }
	err = p.call(ctx, "query_range", url.Values{"query": {query}, "start": {at(from)}, "end": {at(to)}, "step": {"1"}}, &data)
	for _, s := range data.Result {
		for _, v := range s.Values {
			if text, _ := v[1].(string); text != "NaN" {
				numbers++
			}
		}
	}
	return len(data.Result), numbers, err
}

// exists returns an error if no series matches a selector.
func (p *prometheus) exists(ctx context.Context, selector string) error {
	var found []any
	if err := p.call(ctx, "series", url.Values{"match[]": {selector}}, &found); err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no series %s", selector)
	}
	return nil
}
