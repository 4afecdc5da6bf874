package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
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
	// Value is what was found there. Text is quoted. What looks like no value of a setting,
	// right or wrong, is not shown, since it may be a secret.
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

// notShown stands for what may be a secret: one that got into the wrong variable, or a wrong file.
const notShown = "(not shown)"

// quote makes outside text fit for a message: in one line, and only if a setting's
// value might be written so. The place tells where to look for any other.
func quote(text string) string { return quoteIf(plain(text), text) }

func quoteIf(shown bool, text string) string {
	if !shown {
		return notShown
	}
	return fmt.Sprintf("%q", text)
}

// plain reports whether text is like a number or within two edits of a word that is known here.
func plain(text string) bool {
	low := strings.ToLower(text)
	return numeric(text) || len(text) <= 32 && slices.ContainsFunc(words, func(word string) bool { return distance(low, word) <= 2 })
}

// numeric reports whether text is like a number, a duration or a list of statuses, right or wrong.
func numeric(text string) bool {
	letters := 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
		} else if !strings.ContainsRune("0123456789+-.,:;%_~<> \t\r\n", r) {
			return false
		}
	}
	return letters <= 3 && len(text) <= 24
}

// words are the names of the settings and what may stand in them.
var words = func() []string {
	all := []string{"true", "false", "off", "none", "default", "defaults", "systems"}
	for _, f := range fields {
		all = append(append(all, f.words...), f.key, f.key[strings.LastIndex(f.key, ".")+1:])
	}
	return append(all, groups...)
}()

// quoteName does so for a name, which is no secret, unless it is no name at all but a URL, say.
func quoteName(name string) string {
	foreign := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_. \n", r)
	}
	return quoteIf(len(name) <= 64 && !strings.ContainsFunc(name, foreign) || plain(name), name)
}
