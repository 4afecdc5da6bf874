package resilient_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/semaphore"
)

// A resident is what the model knows of a client, and a registry is a list of them, too slow and too simple to be wrong.
type resident struct {
	c     *resilient.Client
	name  string
	conns int
	base  int // -1: its own
}

// Whatever clients are made, changed and closed, in whatever order, a Registry has those that the list has, under names that can't be
// confused, with no more connections than the ceiling, and no base twice.
func TestRegistryModel(t *testing.T) {
	const ceiling = 10
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(t *rapid.T) {
		g := resilient.NewRegistry(resilient.WithMaxTotalConns(ceiling))
		bases := []*http.Transport{{}, {}}
		var in, gone []*resident
		var bare []string // bulkheads that are no client's
		t.Cleanup(func() {
			for _, r := range in {
				r.c.Close()
			}
		})
		names := rapid.SampledFrom([]string{"sber", "sber-reports", "sber_reports", "vtb", "default", "Sber"})
		key := func(name string) string { return strings.ReplaceAll(name, "_", "-") }
		conns := rapid.IntRange(1, 6)
		sum := func(but *resident) (n int) {
			for _, r := range in {
				if r != but {
					n += r.conns
				}
			}
			return n
		}
		pick := func(from []*resident) *resident {
			if len(from) == 0 {
				t.Skip("nobody")
			}
			return rapid.SampledFrom(from).Draw(t, "client")
		}
		t.Repeat(map[string]func(*rapid.T){
			"new": func(t *rapid.T) {
				r := &resident{name: names.Draw(t, "name"), conns: conns.Draw(t, "conns"), base: rapid.IntRange(-1, 1).Draw(t, "base")}
				opts := []resilient.Option{resilient.WithLogger(discard)}
				if r.base >= 0 {
					opts = append(opts, resilient.WithBase(bases[r.base]))
				}
				known := slices.IndexFunc(in, func(other *resident) bool { return key(other.name) == key(r.name) })
				want := ""
				switch {
				case r.name == "default" || r.name == "Sber":
					want = r.name
				case known >= 0:
					want = "exists"
				case sum(nil)+r.conns > ceiling:
					want = "limit of 10"
				case r.base >= 0 && slices.ContainsFunc(in, func(other *resident) bool { return other.base == r.base }):
					want = "its base is that of"
				case slices.ContainsFunc(bare, func(name string) bool { return key(name) == key(r.name) }):
					want = "Unregister that bulkhead"
				}
				var err error
				r.c, err = g.NewClient(r.name, resilient.Config{MaxConnsPerHost: r.conns}, opts...)
				switch {
				case (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want):
					t.Fatalf("NewClient(%s) = %v, want %q", r.name, err, want)
				case errors.Is(err, resilient.ErrDuplicate) != (want == "exists" || want == "Unregister that bulkhead"):
					t.Fatalf("%v is ErrDuplicate, or is not", err)
				case err == nil:
					in = append(in, r)
				}
			},
			"reconfigure": func(t *rapid.T) {
				r, n := pick(in), conns.Draw(t, "conns")
				err := r.c.Reconfigure(resilient.Config{MaxConnsPerHost: n})
				fits := n == r.conns || sum(r)+n <= ceiling
				if (err == nil) != fits {
					t.Fatalf("Reconfigure(%s, %d) = %v", r.name, n, err)
				}
				if fits {
					r.conns = n
				}
			},
			"reconfigureClosed": func(t *rapid.T) {
				if err := pick(gone).c.Reconfigure(resilient.Config{}); !errors.Is(err, resilient.ErrClosed) {
					t.Fatal(err)
				}
			},
			"close": func(t *rapid.T) {
				r := pick(in)
				r.c.Close()
				in = slices.DeleteFunc(in, func(other *resident) bool { return other == r })
				gone = append(gone, r)
			},
			"closeAgain": func(t *rapid.T) { pick(gone).c.Close() },
			"bare": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"sber", "vtb"}).Draw(t, "name")
				_, err := g.Bulkheads().GetOrCreate(name, semaphore.Limits{MaxConcurrent: 1})
				owned := slices.ContainsFunc(in, func(r *resident) bool { return r.name == name })
				if errors.Is(err, semaphore.ErrOwned) != owned || !owned && err != nil {
					t.Fatalf("GetOrCreate(%s) = %v", name, err)
				}
				if !owned && !slices.Contains(bare, name) {
					bare = append(bare, name)
				}
			},
			"unregister": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"sber", "vtb"}).Draw(t, "name")
				known := slices.Contains(bare, name)
				if err := g.Bulkheads().Unregister(name); (err == nil) != known {
					t.Fatalf("Unregister(%s) = %v", name, err)
				}
				bare = slices.DeleteFunc(bare, func(other string) bool { return other == name })
			},
			"": func(t *rapid.T) {
				steps++
				slices.SortFunc(in, func(a, b *resident) int { return strings.Compare(a.name, b.name) })
				want, got := map[string]int{}, map[string]int{}
				var sorted []string
				for _, r := range in {
					sorted = append(sorted, r.name)
					want[r.name] = r.conns
					if c, err := g.Client(r.name); c != r.c || err != nil {
						t.Fatalf("Client(%s) = %v, %v", r.name, c, err)
					}
				}
				for _, s := range g.States() {
					got[s.Name] = s.Config.MaxConnsPerHost
				}
				if diff := cmp.Diff(sorted, g.Names()) + cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
				for _, r := range gone {
					c, err := g.Client(r.name)
					if _, again := want[r.name]; !again && !errors.Is(err, resilient.ErrNotFound) || c == r.c {
						t.Fatalf("Client(%s) of one that is closed = %v, %v", r.name, c, err)
					}
				}
			},
		})
	})
}
