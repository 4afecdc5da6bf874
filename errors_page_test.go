package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A provoked error: how a client of a scripted system comes to return one of the errors of docs/errors.md.
type provoked struct {
	set  setting
	typ  error // of the error, if it is ours
	call func(r *rig) error
}

func post(ctx context.Context, r *rig) error {
	resp, err := r.Do(r.request(ctx, "POST", io.MultiReader(strings.NewReader("payment"))))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err
}

var provocations = func() map[string]provoked {
	hang, stall := testserver.Options{Handler: testserver.HangBeforeHeaders()}, testserver.Options{Handler: testserver.StallInBody(3)}
	plain := func(r *rig) error { return post(r.Context(), r) }
	dial := func(f func(context.Context, string, string) (net.Conn, error)) setting {
		return setting{opts: []resilient.Option{resilient.WithDialContext(f)}}
	}
	within := func(d time.Duration) func(*rig) error {
		return func(r *rig) error {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			defer cancel()
			return post(ctx, r)
		}
	}
	timeout := new(resilient.TimeoutError)
	return map[string]provoked{
		"FullError": {setting{server: hang, cfg: resilient.Config{MaxConnsPerHost: 1}}, new(resilient.FullError), func(r *rig) error {
			go plain(r)
			synctest.Wait()
			return plain(r)
		}},
		"OpenError": {setting{}, new(resilient.OpenError), func(r *rig) error {
			r.ForceOpen(time.Minute)
			return plain(r)
		}},
		"ClosedError": {setting{}, new(resilient.ClosedError), func(r *rig) error {
			r.Close()
			return plain(r)
		}},
		"ClosedError, Started": {setting{server: hang}, new(resilient.ClosedError), func(r *rig) error {
			time.AfterFunc(time.Second, func() { r.Close() })
			return plain(r)
		}},
		"PausedError": {setting{cfg: resilient.Config{Retry: resilient.RetryConfig{Gate: true}}}, new(resilient.PausedError), func(r *rig) error {
			r.server.Next(testserver.Status(429, "Retry-After", "5"))
			plain(r)
			return plain(r)
		}},
		"LateError": {setting{cfg: resilient.Config{Retry: resilient.RetryConfig{DeadlineFloor: time.Second}}}, new(resilient.LateError), within(time.Second / 2)},
		"RetryError": {setting{cfg: retries(2, resilient.Config{})}, new(resilient.RetryError), func(r *rig) error {
			r.server.Next(testserver.Status(503, "Retry-After", "4"))
			time.AfterFunc(time.Second, func() { r.Close() })
			_, err := r.get(r.Context())
			return err
		}},
		"TimeoutError, connect or tls, of a POST": {dial(testserver.BlackHole), timeout, plain},
		"TimeoutError, connect or tls, of a GET": {dial(testserver.BlackHole), timeout, func(r *rig) error {
			_, err := r.get(r.Context())
			return err
		}},
		"TimeoutError, read":     {setting{server: stall}, timeout, plain},
		"TimeoutError, total":    {setting{server: testserver.Options{Handler: testserver.Trickle(1, time.Second, 100)}}, timeout, plain},
		"TimeoutError, deadline": {setting{server: hang}, timeout, within(time.Second)},
		"TooLargeError":          {setting{cfg: resilient.Config{MaxResponseBytes: 1}}, new(resilient.TooLargeError), plain},
		"the caller's cancel": {setting{server: hang}, nil, func(r *rig) error {
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(time.Second, cancel)
			return post(ctx, r)
		}},
		"the caller's deadline": {setting{}, nil, within(-1)},
		"refused connection, of a POST": {dial(func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}), nil, plain},
		"broken connection": {setting{server: testserver.Options{Handler: testserver.CutInBody(3, 100)}}, nil, plain},
		"invalid request": {setting{}, nil, func(r *rig) error {
			req := r.request(r.Context(), "POST", nil)
			req.URL.Scheme = "gopher"
			resp, err := r.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}},
	}
}()

var sentinels = map[string]error{
	"ErrUnavailable": resilient.ErrUnavailable, "ErrBulkheadFull": resilient.ErrBulkheadFull, "ErrCircuitOpen": resilient.ErrCircuitOpen,
	"ErrTimeout": resilient.ErrTimeout, "ErrTooLarge": resilient.ErrTooLarge, "ErrClosed": resilient.ErrClosed,
	"ErrNotFound": resilient.ErrNotFound, "ErrDuplicate": resilient.ErrDuplicate,
	"Canceled": context.Canceled, "DeadlineExceeded": context.DeadlineExceeded,
}

// docs/errors.md has every error of ours, and each row of it says what is so.
func TestErrorsPage(t *testing.T) {
	text, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	_, table, _ := strings.Cut(string(text), "| not sent |\n|---|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		cells = cells[1 : len(cells)-1] // what is before the first and behind the last
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[strings.ReplaceAll(cells[0], "`", "")] = cells
	}
	for name, f := range provocations {
		t.Run(name, func(t *testing.T) {
			row := rows[name]
			delete(rows, name)
			if len(row) != 6 {
				t.Fatalf("its row is %q", row)
			}
			synctest.Test(t, func(t *testing.T) {
				set := f.set
				set.server.Memory = true
				r := newRig(t, set)
				err := f.call(r)
				t.Log(err)
				if got := facts(err, f.typ); !slices.Equal(got, clean(row[2:])) {
					t.Errorf("%v is\n%q\nand the page says\n%q", err, got, clean(row[2:]))
				}
				if phase, ok := strings.CutPrefix(name, "TimeoutError, "); ok {
					timeout, _ := errors.AsType[*resilient.TimeoutError](err)
					if timeout == nil || !strings.HasPrefix(phase, string(timeout.Phase)) {
						t.Errorf("%v", timeout)
					}
				}
				r.Close()
			})
		})
	}
	for name := range rows {
		t.Errorf("nothing returns what the row %q is about", name)
	}
	for _, typ := range documented(t, public[0]).Types {
		if strings.HasSuffix(typ.Name, "Error") && !strings.Contains(string(text), typ.Name+"`") {
			t.Errorf("there is nothing about %s", typ.Name)
		}
	}
}

func clean(cells []string) []string {
	all := slices.Clone(cells)
	for i := range all {
		words := strings.Split(strings.TrimSpace(all[i]), ", ")
		slices.Sort(words)
		all[i] = strings.Join(words, ", ")
	}
	all[0] = strings.Replace(all[0], "as the refusal", "ErrClosed, ErrUnavailable", 1)
	return all
}

// facts are what the page says of an error: what it is, its fields, the status, and whether nothing was sent.
func facts(err, typ error) []string {
	var is, fields []string
	for name, target := range sentinels {
		if errors.Is(err, target) {
			is = append(is, name)
		}
	}
	if typ != nil {
		target := reflect.New(reflect.TypeOf(typ))
		if !errors.As(err, target.Interface()) {
			fields = append(fields, fmt.Sprintf("no %T", typ))
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(typ).Elem()) {
			if f.IsExported() {
				fields = append(fields, f.Name)
			}
		}
	}
	status := "–"
	if code, _, ok := resilient.StatusCode(err); ok {
		status = fmt.Sprint(code)
	}
	sent := map[bool]string{true: "yes", false: "no"}[resilient.NotSent(err)]
	return clean([]string{strings.Join(is, ", "), strings.Join(fields, ", "), status, sent})
}
