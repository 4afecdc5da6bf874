package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// secrets are what may get into a configuration by mistake.
var secrets = []string{
	"hunter2", "sk-live-0123456789", "postgres://user:passw0rd@db/prod", "Bearer eyJhbGciOi", "3fa85f64-5717-4562-b3fc-2c963f66afa6",
	"Пароль1", "p:a@s/s", "-----BEGIN KEY-----", "0123456789abcdef",
}

// tells fails if a secret shows in what is said of err, in words or in a log.
func tells(t *testing.T, err error, secret string) {
	t.Helper()
	if err == nil {
		t.Errorf("%q was taken", secret)
		return
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Error("refused", "error", err)
	for _, f := range faults(t, err) {
		slog.New(slog.NewTextHandler(&log, nil)).Error("refused", "fault", f)
		text, _ := json.Marshal(f)
		fmt.Fprintf(&log, "%+v %#v %s", f, f, text)
	}
	if said := err.Error() + log.String(); strings.Contains(said, secret) || strings.Contains(said, strings.Trim(fmt.Sprintf("%q", secret), `"`)) {
		t.Errorf("%q shows: %s", secret, said)
	}
}

// A secret in the wrong place, or a wrong file, is refused and not shown.
func TestSecretsAreNotShown(t *testing.T) {
	for _, secret := range secrets {
		for _, f := range fields {
			if f.name == "Retry.DeadlineHeader" && isHeader(secret) {
				continue // it is one
			}
			_, err := fromEnv("sber", []string{"CLIENT_SBER__" + f.env + "=" + secret})
			tells(t, err, secret)
			for _, name := range []string{f.env + "S", strings.ToLower(f.env)} {
				_, err = fromEnv("sber", []string{"CLIENT_SBER__" + name + "=" + secret})
				tells(t, err, secret)
			}
		}
		_, err := fromEnv("sber", []string{"CLIENT_SBER__RETRY_TOKEN=" + secret})
		tells(t, err, secret)
		_, err = Config{Protocol: Protocol(secret)}.Complete()
		tells(t, err, secret)
		_, err = Config{Breaker: Breaker{FailureStatus: secret}}.Complete()
		tells(t, err, secret)
		_, err = ParseStatuses(secret)
		tells(t, err, secret)
		for _, text := range []string{
			"systems: {sber: {read_timeout: %q}}", "systems: {sber: {raed_timeout: %q}}", "systems: {sber: {password: %q}}",
			"systems: {sber: {bulkhead: {password: %q}}}", "systems: {sber: %q}", "systems: %q", "%q", "password: %q",
			"systems: {sber: {read_timeout: 1s, read_timeout: %q}}",
			"systems: {sber: {password: %q", "password: %q: x", "systems: {sber: {read_timeout: !x %q}}", "password: \xff%q",
		} {
			_, err = loadText("f.yaml", fmt.Sprintf(text, secret))
			tells(t, err, secret)
		}
	}
	// Without quotes these are YAML's own.
	for _, text := range []string{"defaults: *hunter2", "defaults: !hunter2 x", "defaults: &a {}\nsystems: {a: !hunter2 {}}", "a: &hunter2 {}\nb: *hunter2", "defaults: &hunter2 {}\nsystems: {a: *hunter2}", "a: @hunter2", "a: %%hunter2", "hunter2", "a: 'hunter2"} {
		_, err := loadText("f.yaml", text)
		tells(t, err, "hunter2")
	}
	for _, name := range []string{"https://user:hunter2@sber.example/", "key=hunter2"} {
		tells(t, CheckName(name), "hunter2")
		_, err := loadText("f.yaml", fmt.Sprintf("systems: {%q: {read_timeout: 1}}", name))
		tells(t, err, "hunter2")
	}
}
