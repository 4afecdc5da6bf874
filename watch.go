package resilient

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/resilient-go/resilient/config"
)

// watchEvery is how often Watch looks at its file.
const watchEvery = 500 * time.Millisecond

// Watch keeps the clients of g as a configuration file says: see [config.Load]
// for the file and the environment over it. It returns an error at once if the file can't be
// loaded or a client refuses its settings; otherwise it follows the file until
// ctx ends, and returns nil. Call it in a goroutine of its own, after the clients
// have been made.
//
// It looks at the file twice a second, by its path, so that one which is
// replaced by a rename or through a symbolic link (as Kubernetes does with a
// ConfigMap) is followed too, and applies a change when the file has been the
// same for two looks, so that one half written is not. Each client whose
// settings have changed is reconfigured: see [Client.Reconfigure]. What is wrong
// with a file is logged, every fault of it, and all goes on as it was.
//
// The file decides about all settings of the clients in it: what was set in code, and is not in the file, is the default again.
//
// No client is made for a system that is new in the file, and one that is no
// longer in it is left as it is: both are logged. So is what was changed.
func (g *Registry) Watch(ctx context.Context, path string) error {
	w := &watch{registry: g, path: path}
	if err := w.apply(); err != nil {
		return err
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.look()
		}
	}
}

// A watch is what Watch knows of its file.
type watch struct {
	registry *Registry
	path     string
	seen     []byte // at the last look
	applied  []byte // or refused
	failing  string // why it could not be read at the last look
	known    map[string]config.Config
}

// look applies the file if it has changed and has been the same for two looks.
func (w *watch) look() {
	content, err := os.ReadFile(w.path)
	if err != nil {
		if w.failing != err.Error() { // once, not twice a second
			slog.Error("configuration not read; going on with what was", slog.String("path", w.path), slog.Any("error", err))
		}
		w.failing = err.Error()
		return
	}
	w.failing = ""
	settled := bytes.Equal(content, w.seen)
	w.seen = content
	if !settled || bytes.Equal(content, w.applied) {
		return
	}
	if err := w.apply(); err != nil {
		slog.Error("configuration refused; going on with what was", slog.String("path", w.path), slog.Any("error", err))
	}
}

// apply reconfigures the clients by the file.
func (w *watch) apply() error {
	w.applied = w.seen
	systems, err := config.Load(w.path)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range w.registry.all() {
		cfg, ok := systems[c.name]
		if _, was := w.known[c.name]; !ok && was {
			slog.Warn("system is no longer configured; its client goes on as it was", slog.String("system", c.name), slog.String("path", w.path))
		}
		if !ok {
			continue
		}
		if err := c.Reconfigure(cfg); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(systems)) {
		_, was := w.known[name]
		if _, err := w.registry.Client(name); err != nil && w.known != nil && !was {
			slog.Warn("system is new in the configuration and has no client yet", slog.String("system", name), slog.String("path", w.path))
		}
	}
	w.known = systems
	return errors.Join(errs...)
}
