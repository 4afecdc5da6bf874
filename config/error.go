package config

import (
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// FieldError is one fault of a configuration. Errors of this package that hold
// several are made by [errors.Join]; [errors.As] finds the first; a walk over
// Unwrap() []error finds all.
type FieldError struct {
	// Field is the field of [Config] by its Go path, such as "Bulkhead.MaxWaiting". For
	// an unknown name it is the field that was probably meant; where no one field is at
	// fault, as with a bad name of a system or a file that is no YAML, it is "".
	Field string
	// Place is where the value was set: Config.ReadTimeout in Go, a variable such as
	// CLIENT_SBER__READ_TIMEOUT, or "clients.yaml:7 systems.sber.read_timeout", a line
	// in a file and the path of keys. A default's is where it could be set.
	Place string
	// Value is what was found there. Text is quoted, and cut if it is long; that of an
	// unknown key which resembles no setting is not shown, since it may be a secret.
	Value string
	// Rule is what the value breaks.
	Rule string
	// Remedy is what to do about it.
	Remedy string
}

// remedyValue is the remedy for a value that breaks a rule by itself.
const remedyValue = "choose such a value, or leave it unset for the default"

// Error returns all of it in one line, except Field.
func (e *FieldError) Error() string {
	return fmt.Sprintf("config: %s = %s: %s; %s", e.Place, e.Value, e.Rule, e.Remedy)
}

// LogValue implements [slog.LogValuer].
func (e *FieldError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("field", e.Field), slog.String("place", e.Place),
		slog.String("value", e.Value), slog.String("rule", e.Rule), slog.String("remedy", e.Remedy))
}

// quote makes outside text fit for one line: control characters escaped, and no
// more than 64 characters of what may be a certificate in the wrong variable.
func quote(text string) string {
	if utf8.RuneCountInString(text) > 64 {
		return fmt.Sprintf("%.64q…", text)
	}
	return fmt.Sprintf("%q", text)
}
