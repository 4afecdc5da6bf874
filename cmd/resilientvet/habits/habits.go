// Package habits has the analyzers of resilientvet, for other drivers of
// golang.org/x/tools/go/analysis too: each finds one habit that the rule book
// has a rule against, and says what to write instead.
//
// They look at one package at a time and need no facts of others, so that a run
// costs little more than type checking. What they can't see they take for good:
// a client or a body that goes where they do not follow is somebody's who knows.
package habits

import (
	"bytes"
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

const (
	library = "github.com/resilient-go/resilient"
	rules   = "https://" + library + "/blob/main/docs/rules.md"
	ignore  = "//resilient:ignore"
)

// Analyzers returns them all.
func Analyzers() []*analysis.Analyzer {
	return []*analysis.Analyzer{BareClient, BodyClose, PerRequest, ClientTimeout, TwoSystems}
}

// A pass is what an analyzer works on: a package without its generated files
// (their generator's to mend) and, unless the flag tests is set, without its tests
// (their systems are their own).
type pass struct {
	*analysis.Pass
	*flow
	root  inspector.Cursor
	files map[*ast.File]bool // to be looked at
}

// habit makes an analyzer. summary and text are its Doc, anchor the rule's place in the rule book.
func habit(name, anchor, summary, text string, run func(*pass)) *analysis.Analyzer {
	a := &analysis.Analyzer{
		Name:     name,
		Doc:      summary + "\n\n" + text + "\n\nA comment lets one pass, with the reason: //resilient:ignore REASON",
		URL:      rules + "#" + anchor,
		Requires: []*analysis.Analyzer{inspect.Analyzer, origins},
	}
	tests := a.Flags.Bool("tests", false, "look at _test.go files too")
	a.Run = func(ap *analysis.Pass) (any, error) {
		p := &pass{
			Pass:  ap,
			flow:  ap.ResultOf[origins].(*flow),
			root:  ap.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
			files: map[*ast.File]bool{},
		}
		for _, f := range ap.Files {
			name := ap.Fset.File(f.FileStart).Name()
			p.files[f] = !ast.IsGenerated(f) && (*tests || !strings.HasSuffix(name, "_test.go"))
		}
		run(p)
		return nil, nil
	}
	return a
}

// each calls do for each node of one of the types in the files to be looked at.
func (p *pass) each(types []ast.Node, do func(inspector.Cursor)) {
	for file := range p.root.Children() {
		if !p.files[file.Node().(*ast.File)] {
			continue
		}
		for c := range file.Preorder(types...) {
			do(c)
		}
	}
}

// report reports a finding at n, unless a comment lets it pass.
func (p *pass) report(n ast.Node, format string, args ...any) {
	switch reason, found := p.ignored(n.Pos()); {
	case !found:
	case reason == "":
		format += " (" + ignore + " lets this pass only with a reason behind it)"
	default:
		return
	}
	p.ReportRangef(n, format, args...)
}

// ignored returns the reason behind a comment to ignore what is at pos: one at
// the end of its line, or on a line of its own before it.
func (p *pass) ignored(pos token.Pos) (reason string, found bool) {
	file := p.Fset.File(pos)
	line := file.Line(pos)
	for _, f := range p.Files {
		if f.FileStart > pos || pos > f.FileEnd {
			continue
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				text, ok := strings.CutPrefix(c.Text, ignore)
				if !ok || text != "" && text[0] != ' ' {
					continue
				}
				if at := file.Line(c.Pos()); at != line && (at != line-1 || !p.alone(file, c)) {
					continue
				}
				if reason = strings.TrimSpace(text); reason != "" {
					return reason, true
				}
				found = true
			}
		}
	}
	return "", found
}

// alone reports whether nothing is before a comment on its line.
func (p *pass) alone(file *token.File, c *ast.Comment) bool {
	src, err := p.ReadFile(file.Name())
	if err != nil {
		return false
	}
	start, end := file.Offset(file.LineStart(file.Line(c.Pos()))), file.Offset(c.Pos())
	return end <= len(src) && len(bytes.TrimSpace(src[start:end])) == 0
}
