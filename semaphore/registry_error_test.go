package semaphore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient/semaphore"
)

func TestRegistryErrors(t *testing.T) {
	all := []error{semaphore.ErrNotFound, semaphore.ErrDuplicate, semaphore.ErrConflict, semaphore.ErrInUse, semaphore.ErrOwned,
		semaphore.ErrUnavailable, semaphore.ErrBulkheadFull}
	for _, test := range []struct {
		err  error
		is   error
		text string
		log  string
	}{
		{
			&semaphore.NotFoundError{Name: "sbre", Known: []string{"alfa", "sber"}}, semaphore.ErrNotFound,
			`semaphore: no bulkhead "sbre"; there are: alfa, sber`, ` err.known="[alfa sber]"`,
		},
		{
			&semaphore.NotFoundError{Name: "sbre"}, semaphore.ErrNotFound,
			`semaphore: no bulkhead "sbre"; there are: none`, ` err.known=[]`,
		},
		{
			&semaphore.DuplicateError{Name: "sber"}, semaphore.ErrDuplicate,
			`semaphore: a bulkhead "sber" exists; get that one, or replace it`, ``,
		},
		{
			&semaphore.ConflictError{Name: "sber", Have: five, Want: semaphore.Limits{MaxConcurrent: 8}}, semaphore.ErrConflict,
			`semaphore: a bulkhead "sber" exists with MaxConcurrent 5 and MaxWaiting 50, not 8 and 0; ask for those, or resize it`,
			` err.have="{MaxConcurrent:5 MaxWaiting:50}" err.want="{MaxConcurrent:8 MaxWaiting:0}"`,
		},
		{
			&semaphore.InUseError{Name: "sber", Active: 2, Waiting: 1}, semaphore.ErrInUse,
			`semaphore: bulkhead "sber" is in use (2 permits out, 1 waiting); unregister it when they are back, or replace it`,
			` err.active=2 err.waiting=1`,
		},
		{
			&semaphore.UnregisteredError{Name: "sber"}, semaphore.ErrUnavailable,
			`semaphore: bulkhead "sber" was unregistered; get the present one from the registry`, ``,
		},
	} {
		if got := test.err.Error(); got != test.text {
			t.Errorf("got  %q\nwant %q", got, test.text)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Error("payment", "err", test.err)
		_, got, _ := bytes.Cut(bytes.TrimSpace(log.Bytes()), []byte("msg=payment "))
		system := "sber"
		if test.is == semaphore.ErrNotFound {
			system = "sbre"
		}
		if diff := cmp.Diff(fmt.Sprintf("err.msg=%q err.system=%s%s", test.text, system, test.log), string(got)); diff != "" {
			t.Errorf("log: %s", diff)
		}
		for _, target := range all {
			if is := errors.Is(fmt.Errorf("setting up: %w", test.err), target); is != (target == test.is) {
				t.Errorf("%v is %v: %v", test.err, target, is)
			}
		}
	}
}

// Those without a type of their own name the system and the remedy too.
func TestRegistryErrorTexts(t *testing.T) {
	r := semaphore.NewRegistry()
	r.Own(semaphore.New("sber", five))
	closed := semaphore.New("alfa", five)
	closed.Close(errClosed)
	for want, err := range map[string]error{
		`semaphore: bulkhead "sber": it has an owner, who alone changes it: a client by its Reconfigure`: r.Resize("sber", five),
		`semaphore: alfa: closed for good (closed); put a new one in its place`:                          r.Register(closed),
		`semaphore: the name is ""; give it that of the system`:                                          r.Register(semaphore.New("", five)),
		`semaphore: alfa: negative limit: {MaxConcurrent:-1 MaxWaiting:0}`:                               r.Resize("alfa", semaphore.Limits{MaxConcurrent: -1}),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
