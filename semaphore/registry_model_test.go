package semaphore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/semaphore"
)

// A member is what the model knows of a semaphore, and a registry a list of them, too slow and too simple to be wrong.
type member struct {
	s       *semaphore.Semaphore
	limits  semaphore.Limits
	active  int
	owned   bool
	closed  bool
	release func()
}

type list struct{ in, all []*member }

func (l *list) index(name string) int {
	return slices.IndexFunc(l.in, func(m *member) bool { return m.s.Name() == name })
}

// change returns the member whose name it is, or the word for why it can't be changed.
func (l *list) change(name string) (*member, string) {
	i := l.index(name)
	switch {
	case i < 0:
		return nil, "not found"
	case l.in[i].owned:
		return nil, "owned"
	}
	return l.in[i], ""
}

func (l *list) remove(m *member) {
	l.in = slices.DeleteFunc(l.in, func(other *member) bool { return other == m })
}

// word is the model's word for an error.
func word(err error) string {
	words := map[error]string{semaphore.ErrNotFound: "not found", semaphore.ErrOwned: "owned", semaphore.ErrDuplicate: "duplicate",
		semaphore.ErrConflict: "conflict", semaphore.ErrInUse: "in use"}
	for target, word := range words {
		if errors.Is(err, target) {
			return word
		}
	}
	switch {
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "closed for good"):
		return "closed"
	}
	return err.Error()
}

// Whatever is done to it in whatever order, a Registry does what the list does.
func TestRegistryModel(t *testing.T) {
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(t *rapid.T) {
		r, l := semaphore.NewRegistry(), &list{}
		names := rapid.SampledFrom([]string{"alfa", "sber", "vtb"})
		limits := rapid.Custom(func(t *rapid.T) semaphore.Limits {
			return semaphore.Limits{MaxConcurrent: rapid.IntRange(0, 2).Draw(t, "max"), MaxWaiting: rapid.IntRange(0, 1).Draw(t, "waiting")}
		})
		make := func() *member {
			m := &member{limits: limits.Draw(t, "limits")}
			m.s = semaphore.New(names.Draw(t, "name"), m.limits)
			l.all = append(l.all, m)
			return m
		}
		anyone := func() *member {
			if len(l.all) == 0 {
				t.Skip("nobody")
			}
			return rapid.SampledFrom(l.all).Draw(t, "semaphore")
		}
		same := func(what string, got, want any) {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %s", what, diff)
			}
		}
		// add is what registering m comes to.
		add := func(m *member) string {
			switch {
			case m.closed:
				return "closed"
			case l.index(m.s.Name()) >= 0:
				return "duplicate"
			}
			l.in = append(l.in, m)
			return ""
		}
		// pick is a new one or, less often, one that was there before.
		pick := func() *member {
			if len(l.all) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
				return anyone()
			}
			return make()
		}

		t.Repeat(map[string]func(*rapid.T){
			"getOrCreate": func(*rapid.T) {
				name, want := names.Draw(t, "name"), limits.Draw(t, "limits")
				s, err := r.GetOrCreate(name, want)
				m, wantErr := l.change(name)
				switch {
				case wantErr == "not found":
					m, wantErr = &member{s: s, limits: want}, ""
					l.in, l.all = append(l.in, m), append(l.all, m)
				case wantErr != "":
				case m.closed:
					wantErr = "closed"
				case m.limits != want:
					wantErr = "conflict"
				}
				same("GetOrCreate", word(err), wantErr)
				if err == nil && s != m.s || err != nil && s != nil {
					t.Fatalf("GetOrCreate() = %v, %v", s, err)
				}
			},
			"register": func(*rapid.T) {
				m := pick()
				same("Register", word(r.Register(m.s)), add(m))
			},
			"own": func(*rapid.T) {
				m := pick()
				release, err := r.Own(m.s)
				want := add(m)
				same("Own", word(err), want)
				if want == "" {
					m.owned, m.release = true, release
				}
			},
			"release": func(*rapid.T) {
				m := anyone()
				if m.release == nil {
					t.Skip("not owned")
				}
				m.release()
				if m.owned {
					m.owned = false // m.release stays: it does nothing any more
					l.remove(m)
				}
			},
			"replace": func(*rapid.T) {
				m := pick()
				old, err := r.Replace(m.s)
				before, want := l.change(m.s.Name())
				if m.closed {
					want = "closed"
				}
				same("Replace", word(err), want)
				switch {
				case want != "" && old != nil || want == "" && old != before.s:
					t.Fatalf("Replace() = %v", old)
				case want == "":
					l.in[l.index(m.s.Name())] = m
				}
			},
			"resize": func(*rapid.T) {
				name, want := names.Draw(t, "name"), limits.Draw(t, "limits")
				err := r.Resize(name, want)
				m, wantErr := l.change(name)
				switch {
				case wantErr != "":
				case m.closed:
					wantErr = "closed"
				default:
					m.limits = want
				}
				same("Resize", word(err), wantErr)
			},
			"unregister": func(*rapid.T) {
				name := names.Draw(t, "name")
				err := r.Unregister(name)
				m, want := l.change(name)
				switch {
				case want != "":
				case m.active > 0:
					want = "in use"
				default:
					m.closed, m.limits = true, semaphore.Limits{}
					l.remove(m)
				}
				same("Unregister", word(err), want)
			},
			"acquire": func(*rapid.T) {
				m := anyone()
				if got, want := m.s.TryAcquire(), m.active < m.limits.MaxConcurrent; got != want {
					t.Fatalf("TryAcquire() = %v", got)
				} else if got {
					m.active++
				}
			},
			"giveBack": func(*rapid.T) {
				m := anyone()
				if m.active == 0 {
					t.Skip("nothing to give back")
				}
				m.s.Release()
				m.active--
			},
			"close": func(*rapid.T) {
				m := anyone()
				m.s.Close(errClosed)
				m.closed, m.limits = true, semaphore.Limits{}
			},
			"": func(*rapid.T) {
				steps++
				slices.SortFunc(l.in, func(a, b *member) int { return strings.Compare(a.s.Name(), b.s.Name()) })
				var known []string
				var states []semaphore.State
				for _, m := range l.in {
					known = append(known, m.s.Name())
					states = append(states, semaphore.State{Name: m.s.Name(), MaxConcurrent: m.limits.MaxConcurrent,
						MaxWaiting: m.limits.MaxWaiting, Active: m.active})
					b, err := r.Get(m.s.Name())
					if err != nil || (b == semaphore.Bulkhead(m.s)) == m.owned {
						t.Fatalf("Get() = %v, %v, owned: %v", b, err, m.owned)
					}
				}
				same("Names", r.Names(), known)
				same("States", r.States(), states)
				_, err := r.Get("none")
				same("Get", fmt.Sprint(err), fmt.Sprint(&semaphore.NotFoundError{Name: "none", Known: known}))
			},
		})
	})
}
