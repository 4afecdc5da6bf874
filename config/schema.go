package config

import _ "embed" // for schema.json

//go:generate go test -run ^TestSchema$ . -update

//go:embed schema.json
var schema string

// Schema returns a JSON schema (draft 2020-12) of the files that [Load] reads, for
// editors and other tools; it is schema.json beside this package. It refuses no file
// that Load takes, and takes some that Load refuses: the rules between fields and the
// bounds of a duration are beyond it.
func Schema() string { return schema }
