package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

//go:generate go test -run ^TestPage$ . -update

const pagePath = "../docs/configuration.md"

// The reference is made of the table of fields and of what is said about them in the code.
func TestPage(t *testing.T) {
	made := makePage(t)
	if *update {
		if err := os.WriteFile(pagePath, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(pagePath); err != nil || string(got) != made {
		t.Errorf("%s is not what the code says: make generate (%v)", pagePath, err)
	}
}

const pageHead = `# Configuration reference

Every setting of a client: what it bounds, its unit, range and default, and how it is written in Go, a file and a variable.
*Written by ` + "`make generate`" + ` from the fields of config.Config and their comments.*

A zero field is its default: "0 means" below is about Go. What breaks a rule is refused when the client is made, every fault at once, each with its place,
value, rule and remedy; nothing is adjusted in silence. How to choose the numbers is in [tuning](tuning.md).

- **In Go**: ` + "`resilient.Config{TotalTimeout: 10 * time.Second}`" + `, given to ` + "`NewClient` or `Reconfigure`" + `.
- **In a file**, read by ` + "`resilient.Load`" + `: under ` + "`systems`" + ` by the system's name, or under ` + "`defaults`" + ` for all; what follows
  ` + "`bulkhead.`, `breaker.` or `retry.`" + ` is nested.
- **In the environment**, read by ` + "`resilient.Load` and `resilient.FromEnv`" + `: ` + "`CLIENT_<SYSTEM>__`" + ` before the name, where the system
  is in upper case with ` + "`_` for `-`: `CLIENT_SBER_REPORTS__TOTAL_TIMEOUT=40s`" + `.

Field by field, the environment comes before the system's section, that before ` + "`defaults`" + `, and these before what is built in.
Durations carry a unit (` + "`100ms`, `1m30s`" + `). Numbers are decimal. Empty text sets nothing.

` + "```yaml" + `
defaults:
  read_timeout: 4s
systems:
  sber:
    max_connections: 40
    bulkhead: {acquire_timeout: 50ms}
    breaker: {failure_status: "429,500-599"}
  sber-reports: {total_timeout: 40s, read_timeout: 30s}
` + "```" + `

` + "`go run github.com/resilient-go/resilient/cmd/resilient explain clients.yaml`" + ` shows what is in force for each system, where each
value comes from, and what is allowed but unwise. ` + "`config.Schema()`" + ` is a JSON schema of such files, for editors.

| field | in a file | variable, after ` + "`CLIENT_<SYSTEM>__`" + ` | default |
|---|---|---|---|
`

func makePage(t *testing.T) string {
	comments := fieldComments(t)
	full, err := Config{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	var page, table strings.Builder
	page.WriteString(pageHead)
	group := "?"
	for _, f := range fields {
		std := f.format(f.of(&full))
		if f.of(&full).Kind() == reflect.String && std == "" {
			std = "none"
		}
		if f.std != "" {
			words := regexp.MustCompile(`[a-z]+_[a-z_]+`).ReplaceAllString(f.std, "`$0`")
			if !strings.HasPrefix(words, std) {
				words = std + " = " + words
			}
			std = words
		}
		name := f.name
		fmt.Fprintf(&page, "| [`%s`](#%s) | `%s` | `%s` | %s |\n", name, strings.ToLower(strings.ReplaceAll(name, ".", "")), f.key, f.env, std)

		in, _, nested := strings.Cut(name, ".")
		if !nested {
			in = ""
		}
		if in != group {
			group = in
			title, about := "Connections and timeouts", ""
			if in != "" {
				title, about = in, comments[in]+"\n\n"
			}
			fmt.Fprintf(&table, "\n## %s\n\n%s", title, about)
		} else {
			table.WriteString("\n")
		}
		rule := strings.TrimPrefix(f.rule(f.of(&full)), "must be ")
		rule = strings.ReplaceAll(rule, " with a unit (500ms, 1m30s), above 0s", " above 0") // the head of the page says it
		rule = regexp.MustCompile(`([hm])0[ms](0s)?`).ReplaceAllString(rule, "$1")
		fmt.Fprintf(&table, "### %s\n\n%s\n\n*Allowed:* %s. *Default:* %s.\n", name, comments[name], rule, std)
	}
	return page.String() + table.String() + `
## Special values

| in Go | in text | of | means |
|---|---|---|---|
| ` + "`NoWait` | `0`" + ` | Bulkhead.AcquireTimeout | refuse at once when no permit is free |
| ` + "`NoQueue` | `0`" + ` | Bulkhead.MaxWaiting | nobody waits for a permit |
| ` + "`Off` | `off`" + ` | Breaker.ConsecutiveFailures | the ratio alone opens the breaker |
| ` + "`0` | `off`" + ` | MaxResponseBytes, Breaker.SlowCall, Retry.DeadlineFloor | off, which is their default |

An explicit 0 anywhere else in text is refused, as it could mean none, no limit or the default; so are negative numbers.
`
}

// fieldComments are the comments of Config's fields by their paths, and of its sections, with code where a comment has links.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	said := map[string]*ast.StructType{}
	links := regexp.MustCompile(`\[([A-Za-z0-9.]+)\]`)
	text := func(doc *ast.CommentGroup) string {
		return links.ReplaceAllString(strings.TrimSpace(doc.Text()), "`$1`")
	}
	for _, name := range []string{"config.go", "retry.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, s := range g.Specs {
					spec := s.(*ast.TypeSpec)
					if st, ok := spec.Type.(*ast.StructType); ok {
						said[spec.Name.Name] = st
						comments[spec.Name.Name] = text(g.Doc)
					}
				}
			}
		}
	}
	for _, f := range fields {
		in, name := "Config", f.name
		if group, rest, nested := strings.Cut(f.name, "."); nested {
			in, name = group, rest
		}
		for _, field := range said[in].Fields.List {
			if field.Names[0].Name == name {
				comments[f.name] = text(field.Doc)
			}
		}
		if comments[f.name] == "" {
			t.Errorf("nothing is said about %s", f.name)
		}
	}
	return comments
}
