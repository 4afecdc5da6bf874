package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

type status string

const (
	notViable status = "not viable" // does not compile
	caught    status = "caught"
	survived  status = "survived"
	arguedFor status = "argued"
)

// An edit replaces the source from one offset to another.
type edit struct {
	from, to int
	text     string
}

type mutant struct {
	pkg      *pkg
	file     string // relative to the module's root, with slashes
	line     int
	function string // with its receiver's type: Semaphore.Acquire
	kind     string // negate, delete, case, boundary, step, return
	text     string // what is changed; " #2" tells a second one of its function apart
	source   string // its line
	edits    []edit
	node     ast.Node // what is changed
	change   string   // of a step, by how much; of a returned value that is negated, "not"
	number   int      // in its package, from 1
	schema   *schema  // that it is in, if it is in one
	status   status
	reason   string // what argues for it
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", m.file, m.line, m.function, m.kind, m.text)
}

// apply returns the mutated source of the mutant's file.
func (m *mutant) apply() []byte { return apply(m.pkg.files[m.file].src, m.edits) }

func apply(src []byte, edits []edit) (out []byte) {
	at := 0
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	for _, e := range edits {
		out = append(append(out, src[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, src[at:]...)
}

// mutants returns every mutant of the package, file by file.
func (p *pkg) mutants() []*mutant {
	var all []*mutant
	for _, name := range p.names {
		f := finder{pkg: p, name: name, src: p.files[name].src}
		for _, decl := range p.files[name].tree.Decls {
			f.function, f.seen = "var", map[string]int{}
			if fn, ok := decl.(*ast.FuncDecl); ok {
				f.function = fn.Name.Name
				if fn.Recv != nil {
					receiver := string(f.src[p.offset(fn.Recv.List[0].Type.Pos()):p.offset(fn.Recv.List[0].Type.End())])
					receiver, _, _ = strings.Cut(strings.TrimPrefix(receiver, "*"), "[") // without type parameters
					f.function = receiver + "." + f.function
				}
			}
			ast.Inspect(decl, f.visit)
		}
		all = append(all, f.found...)
	}
	for i, m := range all {
		m.number = i + 1
	}
	return all
}

// A finder collects the mutants of one file.
type finder struct {
	pkg      *pkg
	name     string
	src      []byte
	function string
	seen     map[string]int // how often a kind and text came up in this function
	kept     []ast.Stmt     // statements that are part of another one and cannot go alone
	found    []*mutant
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.negate(n.Cond)
		}
	case *ast.SwitchStmt:
		f.cases(n.Body, n.Tag == nil)
	case *ast.TypeSwitchStmt:
		f.kept = append(f.kept, n.Assign)
		f.cases(n.Body, false)
	case *ast.SelectStmt:
		f.cases(n.Body, false)
	case *ast.CommClause:
		f.kept = append(f.kept, n.Comm)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.BasicLit:
		f.step(n)
	case *ast.IncDecStmt:
		f.delete(n)
		other := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
		f.add("step", n, edit{f.pkg.offset(n.TokPos), f.pkg.offset(n.End()), other})
	case *ast.ReturnStmt:
		f.delete(n)
		f.results(n)
	case *ast.AssignStmt, *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt, *ast.SendStmt:
		f.delete(n.(ast.Stmt))
	}
	return true
}

func (f *finder) delete(n ast.Stmt) {
	if !slices.Contains(f.kept, n) {
		f.add("delete", n, edit{f.pkg.offset(n.Pos()), f.pkg.offset(n.End()), ""})
	}
}

// step makes a whole number one more and one less. Where that is no value of its type, the mutant does not compile.
func (f *finder) step(n *ast.BasicLit) {
	value, err := strconv.ParseInt(n.Value, 0, 63)
	if n.Kind != token.INT || err != nil {
		return
	}
	for _, by := range []int64{1, -1} {
		step := f.add("step", n, edit{f.pkg.offset(n.Pos()), f.pkg.offset(n.End()), fmt.Sprintf("(%d)", value+by)})
		step.change = fmt.Sprint(by)
	}
}

// results returns nothing or false where there was something, true where there was false, and swaps neighbours of one type.
// What does not go with the results' types does not compile.
func (f *finder) results(n *ast.ReturnStmt) {
	source := func(e ast.Expr) string { return string(f.src[f.pkg.offset(e.Pos()):f.pkg.offset(e.End())]) }
	for i, e := range n.Results {
		from, to := f.pkg.offset(e.Pos()), f.pkg.offset(e.End())
		f.add("return", e, edit{from, from, "!("}, edit{to, to, ")"}).change = "not"
		if source(e) != "nil" {
			f.add("return", e, edit{from, to, "nil"})
		}
		if i+1 < len(n.Results) && source(e) != source(n.Results[i+1]) {
			next := n.Results[i+1]
			f.add("return", n,
				edit{from, to, source(next)}, edit{f.pkg.offset(next.Pos()), f.pkg.offset(next.End()), source(e)})
		}
	}
}

// cases negates the conditions of a switch without a tag; of another switch or a select it drops each case instead.
func (f *finder) cases(body *ast.BlockStmt, conditions bool) {
	for _, clause := range body.List {
		c, ok := clause.(*ast.CaseClause)
		if !ok || !conditions || c.List == nil {
			f.add("case", clause, edit{f.pkg.offset(clause.Pos()), f.pkg.offset(clause.End()), ""})
			continue
		}
		for _, cond := range c.List {
			f.negate(cond)
		}
	}
}

func (f *finder) binary(n *ast.BinaryExpr) {
	if n.Op == token.LAND || n.Op == token.LOR {
		for _, operand := range []ast.Expr{n.X, n.Y} {
			if inner, ok := operand.(*ast.BinaryExpr); !ok || inner.Op != n.Op { // of a && b && c: a, b and c
				f.negate(operand)
			}
		}
	}
	moved := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	if op, ok := moved[n.Op]; ok {
		at := f.pkg.offset(n.OpPos)
		f.add("boundary", n, edit{at, at + len(n.Op.String()), op})
	}
}

func (f *finder) negate(e ast.Expr) {
	from, to := f.pkg.offset(e.Pos()), f.pkg.offset(e.End())
	f.add("negate", e, edit{from, from, "!("}, edit{to, to, ")"})
}

func (f *finder) add(kind string, n ast.Node, edits ...edit) *mutant {
	from, to := f.pkg.offset(n.Pos()), f.pkg.offset(n.End())
	text, _, _ := strings.Cut(string(f.src[from:to]), "\n")
	if kind == "step" || kind == "return" {
		into, _, _ := strings.Cut(string(apply(f.src[:to], edits)[from:]), "\n")
		text += " -> " + into
	}
	f.seen[kind+text]++
	if nth := f.seen[kind+text]; nth > 1 {
		text += fmt.Sprint(" #", nth)
	}
	line := f.pkg.fset.Position(n.Pos()).Line
	source := strings.TrimSpace(strings.Split(string(f.src), "\n")[line-1])
	m := &mutant{
		pkg: f.pkg, file: f.name, line: line, function: f.function, kind: kind, text: text, source: source, node: n, edits: edits,
	}
	f.found = append(f.found, m)
	return m
}
