package config

import (
	"fmt"
	"regexp"
	"strings"
)

const maxName = 63 // as a DNS label

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)

// CheckName reports, as a [*FieldError], whether name cannot be the name of a
// system. A name is lower-case letters and digits, beginning with a letter, with
// single '-' or '_' between; it has at most 63 characters. It is also a metric
// label, a log attribute and, by [EnvPrefix], part of a variable's name. "default"
// and "defaults" are refused: they say nothing about whose calls fail.
func CheckName(name string) error {
	if fault := checkName(name, "name of a system"); fault != nil {
		return fault
	}
	return nil
}

func checkName(name, place string) *FieldError {
	fault := FieldError{Place: place, Value: quoteName(name), Remedy: `name the external system, like "sber" or "sber-reports"`}
	switch {
	case isDefault(name):
		fault.Rule = "names no system"
	case len(name) > maxName:
		fault.Rule = fmt.Sprintf("must have at most %d characters, has %d", maxName, len(name))
	case !namePattern.MatchString(name):
		fault.Rule = "must be lower-case letters and digits, a letter first, with single - or _ between"
	default:
		return nil
	}
	return &fault
}

func isDefault(name string) bool { return name == "default" || name == "defaults" }

// Key returns the form of a system's name that must be unique: '-' and '_' are one
// in it, as they are one in the environment, so "pay-gw" and "pay_gw" collide.
func Key(name string) string { return strings.ReplaceAll(name, "-", "_") }

// EnvPrefix returns what the variables of a system begin with: CLIENT_PAY_GW__ for
// "pay-gw". A name that [CheckName] accepts has no "__", so no two keys share a
// prefix, and the first "__" of a variable ends the name.
func EnvPrefix(name string) string { return "CLIENT_" + strings.ToUpper(Key(name)) + "__" }
