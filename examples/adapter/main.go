// The adapter is a service that calls a bank: an example of the rule book, whole.
// README.md in this directory goes through it.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	slog.SetDefault(log) // of a registry's Watch, and of whatever takes no logger
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := serve(ctx, log)
	stop()
	if err != nil {
		log.Error("the service has failed", "err", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, log *slog.Logger) error {
	set, err := fromEnv()
	if err != nil {
		return err
	}
	s, err := wire(set, log)
	if err != nil {
		return err
	}
	return s.run(ctx)
}
