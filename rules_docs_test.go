package resilient_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/resilient-go/resilient/config"
)

// surroundings are what the snippets of the pages stand in: a service with an adapter over a generated client.
const surroundings = `
type (
	Order   struct{ ID string }
	Receipt struct{ Status string }
	Rate    struct{}
	Printer struct{ client *http.Client }
	Bank    struct {
		api    *bankClient
		client *resilient.Client
	}
	bankClient      struct{}
	bankOption      func(*bankClient) error
	generatedClient struct {
		breaker interface{ IsOpen() bool }
		pay     func(context.Context, Order) (Receipt, error)
	}
	span interface{ SetAttributes(...keyValue) }
	keyValue struct{}
	Payment  struct{ ID string }
)

func (*Bank) token(context.Context, Order) (token string, err error)
func (*Bank) pay(context.Context, Order, string) (r Receipt, err error)
%s
var (
	// Packages.
	bank struct {
		NewClientWithResponses func(server string, opts ...bankOption) (*bankClient, error)
		WithHTTPClient         func(doer interface{ Do(*http.Request) (*http.Response, error) }) bankOption
	}
	trace     struct{ SpanFromContext func(context.Context) span }
	attribute struct{ String func(key, value string) keyValue }

	ErrBankUnavailable, errOpen error
	bankURL, query              string
	systems                     []string
	jobs                        chan *http.Request
	failures                    atomic.Int64
	order                       Order
	cache                       struct{ Last func(context.Context) (Rate, error) }
	askRate                     func(context.Context) (Rate, error)
	db                          *sql.DB
	logger                      *slog.Logger
	alert                       func(system, from, to string)

	petstore struct {
		NewClientWithResponses func(server string, opts ...bankOption) (*bankClient, error)
		WithHTTPClient         func(doer interface{ Do(*http.Request) (*http.Response, error) }) bankOption
	}
	sdk          struct{ HTTPClient *http.Client }
	sdkTransport http.RoundTripper
	url          string
	mux          *http.ServeMux
	queue        struct{ Later func(context.Context, Order) (Payment, error) }
	a            struct {
		login func(context.Context) (string, error)
		pay   func(context.Context, string, Order) (Payment, error)
	}
)
`

// surroundingImports are the packages that snippets may use.
var surroundingImports = []string{"context", "database/sql", "errors", "fmt", "io", "log", "log/slog", "net/http", "os", "strconv", "sync/atomic", "time",
	"github.com/prometheus/client_golang/prometheus", public[0], public[1], public[2], public[3]}

// A snippet is code of a page.
type snippet struct {
	rule, kind string // "BH-2, BH-X1"; "right", "wrong" or "yaml"
	code       string
}

var kinds = map[string]string{"Right:": "right", "Wrong:": "wrong", "Правильно:": "right", "Неправильно:": "wrong"}

// A page is what a test wants to know of one.
type page struct {
	snippets []snippet
	rules    []string            // the headings of rules, in order
	groups   int                 // the headings above them
	tests    map[string][]string // by rules: "TestRule_BH1 rules_bulkhead_test.go"
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", name))
	if err != nil {
		t.Fatal(err)
	}
	p := page{tests: map[string][]string{}}
	anchors := map[string]bool{}
	rule, kind, fence := "", "", (*snippet)(nil)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence != nil && line == "```":
			p.snippets = append(p.snippets, *fence)
			fence = nil
		case fence != nil:
			fence.code += line + "\n"
		case line == "```go":
			fence = &snippet{rule: rule, kind: kind}
			if kind == "" {
				t.Errorf("%s: %s: code that is neither right nor wrong", name, rule)
			}
		case line == "```yaml":
			fence = &snippet{rule: rule, kind: "yaml"}
		case strings.HasPrefix(line, "#"):
			heading := strings.TrimLeft(line, "# ")
			anchors["#"+anchor(heading)] = true
			if strings.HasPrefix(line, "### ") {
				p.rules, rule = append(p.rules, heading), heading
			} else {
				p.groups++
			}
			kind = ""
		case kinds[line] != "":
			kind = kinds[line]
		}
		for _, link := range regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`).FindAllStringSubmatch(line, -1) {
			if file, ok := strings.CutPrefix(link[2], "../"); ok {
				p.tests[rule] = append(p.tests[rule], link[1]+" "+file)
			}
		}
	}
	for _, link := range regexp.MustCompile(`\]\((#[^)]*)\)`).FindAllStringSubmatch(string(text), -1) {
		if !anchors[link[1]] {
			t.Errorf("%s: no heading for %s", name, link[1])
		}
		delete(anchors, link[1])
	}
	if len(anchors) != 1 { // the title's
		t.Errorf("%s: the table of contents lacks some of %v", name, slices.Sorted(maps.Keys(anchors)))
	}
	return p
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// ruleBook lists the rules that there are.
const ruleBook = "BH-1 BH-2 BH-3 BH-X1 CB-1 CB-2 CB-3 CB-4 CB-5 CB-6 CB-X2 CB-X3 CFG-1 CFG-2 CFG-3 FB-1 FB-2 FB-X1 FB-X2 FB-X3 " +
	"HC-1 HC-2 HC-3 HC-4 ISO-1 ISO-2 ISO-3 ISO-X1 ISO-X2 OAS-1 OBS-1 OBS-2 OBS-3 RE-1 RE-2 RE-3 RE-4 TO-1 TO-3 TO-X1 TO-X2 TO-X3 WHERE-X1"

// Every rule is there, with wrong code, right code, and a test of its name where the page says.
func TestRulesPage(t *testing.T) {
	p := readPage(t, "rules.md")
	all := strings.Split(strings.Join(p.rules, ", "), ", ")
	if slices.Sort(all); strings.Join(all, " ") != ruleBook {
		t.Errorf("the rules are\n%s\nwant\n%s", strings.Join(all, " "), ruleBook)
	}
	ids := regexp.MustCompile(`\b(BH|ISO|TO|CB|OAS|RE|FB|CFG|HC|OBS|WHERE)-(X?\d)\b`)
	for _, rule := range p.rules {
		for _, kind := range []string{"right", "wrong"} {
			if !slices.ContainsFunc(p.snippets, func(s snippet) bool { return s.rule == rule && s.kind == kind }) {
				t.Errorf("%s: nothing is %s", rule, kind)
			}
		}
		wanted := map[string]bool{}
		for _, id := range ids.FindAllStringSubmatch(rule, -1) {
			wanted[id[1]+id[2]] = true
		}
		for _, test := range p.tests[rule] {
			name, file, _ := strings.Cut(test, " ")
			code, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(code), "\nfunc "+name+"(t *testing.T) {\n") {
				t.Errorf("%s: no %s in %s: %v", rule, name, file, err)
			}
			for _, id := range strings.Split(name, "_")[1:] {
				if !wanted[id] {
					t.Errorf("%s: %s is about another rule", rule, name)
				}
				delete(wanted, id)
			}
		}
		if len(wanted) != 0 || len(ids.FindAllString(rule, -1)) == 0 {
			t.Errorf("%s: no test of %v", rule, wanted)
		}
	}
}

// The right code compiles, and so does the wrong, unless it says that it does not; the file of settings is one.
func TestRulesCode(t *testing.T) {
	imports := newImporter(t)
	for _, s := range readPage(t, "rules.md").snippets {
		if s.kind == "yaml" {
			configs, err := config.Load(clients(t, s.code))
			if err != nil || len(configs) == 0 {
				t.Errorf("%s: %v", s.rule, err)
			}
			continue
		}
		fails := s.kind == "wrong" && strings.Contains(s.code, "does not compile")
		if err := compile(imports, s.code); (err != nil) != fails {
			t.Errorf("%s, %s: %v\n%s", s.rule, s.kind, err, s.code)
		}
	}
}

// compile checks a snippet, of declarations or of statements, but for variables and imports that it does not use.
func compile(imports types.Importer, code string) error {
	pay := "func (*Bank) Pay(context.Context, Order) (r Receipt, err error)\n"
	if strings.Contains(code, ") Pay(ctx") {
		pay = ""
	}
	around := fmt.Sprintf(surroundings, pay)
	files := token.NewFileSet()
	if _, err := parser.ParseFile(files, "", "package p\n"+code, 0); err != nil {
		code = `func _(ctx context.Context, err error, cfg resilient.Config, req *http.Request, reg *resilient.Registry, sber *resilient.Client, client *http.Client, b *Bank, w http.ResponseWriter) error {
			{
			` + code + "}\nreturn nil\n}\n"
	}
	head := "package p\n"
	for _, path := range surroundingImports {
		head += fmt.Sprintf("import %q\n", path)
	}
	file, err := parser.ParseFile(files, "", head+around+code, 0)
	if err != nil {
		return err
	}
	var errs []error
	conf := types.Config{Importer: imports, Error: func(err error) {
		if e, ok := errors.AsType[types.Error](err); !ok || !e.Soft {
			errs = append(errs, err)
		}
	}}
	_, _ = conf.Check("p", files, []*ast.File{file}, nil) // its error is the first of those
	return errors.Join(errs...)
}

// The Russian page has the same rules, the same code but for comments, and the same tests.
func TestRulesPageInRussian(t *testing.T) {
	en, ru := readPage(t, "rules.md"), readPage(t, "rules.ru.md")
	if !slices.Equal(en.rules, ru.rules) || en.groups != ru.groups {
		t.Fatalf("rules\n%q\n%q", en.rules, ru.rules)
	}
	if !maps.EqualFunc(en.tests, ru.tests, slices.Equal) {
		t.Errorf("tests\n%v\n%v", en.tests, ru.tests)
	}
	if len(en.snippets) != len(ru.snippets) {
		t.Fatalf("%d snippets, %d in Russian", len(en.snippets), len(ru.snippets))
	}
	for i, s := range en.snippets {
		other := ru.snippets[i]
		if s.rule != other.rule || s.kind != other.kind || !slices.Equal(tokens(s), tokens(other)) {
			t.Errorf("%s, %s:\n%s\nin Russian %s:\n%s", s.rule, s.kind, s.code, other.kind, other.code)
		}
	}
}

// tokens are those of a snippet's code, without comments.
func tokens(s snippet) (all []string) {
	if s.kind == "yaml" {
		for line := range strings.Lines(s.code) {
			line, _, _ = strings.Cut(line, "#")
			all = append(all, strings.TrimSpace(line))
		}
		return all
	}
	var scan scanner.Scanner
	files := token.NewFileSet()
	scan.Init(files.AddFile("", -1, len(s.code)), []byte(s.code), nil, 0)
	for {
		_, tok, text := scan.Scan()
		if tok == token.EOF {
			return all
		}
		all = append(all, tok.String()+" "+text)
	}
}
