package habits

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// A flow is what the package's variables and fields are given, in no order: an
// answer that holds for all of it needs none.
type flow struct {
	info *types.Info
	// What is assigned to a variable or field. A nil is what is not known, such as a range's element.
	values map[*types.Var][]ast.Expr
	// What is assigned to a field of a variable or field, by the field's name: client.Timeout = x.
	sets map[*types.Var]map[string][]ast.Expr
	// Where the value of an expression goes at once.
	dest map[ast.Expr]*types.Var
}

var origins = &analysis.Analyzer{
	Name:       "resilientflow",
	Doc:        "collect what variables and fields are given, for the analyzers of resilientvet",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*flow](),
	Run: func(p *analysis.Pass) (any, error) {
		f := &flow{
			info:   p.TypesInfo,
			values: map[*types.Var][]ast.Expr{},
			sets:   map[*types.Var]map[string][]ast.Expr{},
			dest:   map[ast.Expr]*types.Var{},
		}
		p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Preorder([]ast.Node{
			(*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.CompositeLit)(nil), (*ast.RangeStmt)(nil), (*ast.FuncType)(nil),
		}, f.collect)
		return f, nil
	},
}

func (f *flow) collect(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, l := range n.Lhs {
			f.assign(l, nth(n.Rhs, len(n.Lhs), i))
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) > 0 {
				f.assign(name, nth(n.Values, len(n.Names), i))
			}
		}
	case *ast.CompositeLit:
		for name, value := range f.fields(n) {
			f.give(name, value)
		}
	case *ast.RangeStmt:
		f.assign(n.Key, nil)
		f.assign(n.Value, nil)
	case *ast.FuncType: // what a parameter is given is not known
		for _, list := range []*ast.FieldList{n.Params, n.Results} {
			if list == nil {
				continue
			}
			for _, field := range list.List {
				for _, name := range field.Names {
					f.assign(name, nil)
				}
			}
		}
	}
}

// nth returns which of values the i-th of n is given: the call itself for each of its results.
func nth(values []ast.Expr, n, i int) ast.Expr {
	switch {
	case len(values) == n:
		return values[i]
	case len(values) == 1:
		if call, ok := ast.Unparen(values[0]).(*ast.CallExpr); ok {
			return call
		}
	}
	return nil
}

func (f *flow) assign(to ast.Expr, value ast.Expr) {
	if to == nil {
		return
	}
	v := f.variable(to)
	if v == nil {
		if into := f.holder(to); into != nil && value != nil {
			f.dest[bare(value)] = into
		}
		return
	}
	f.give(v, value)
	if sel, ok := ast.Unparen(to).(*ast.SelectorExpr); ok && v.IsField() {
		if of := f.variable(sel.X); of != nil {
			if f.sets[of] == nil {
				f.sets[of] = map[string][]ast.Expr{}
			}
			f.sets[of][v.Name()] = append(f.sets[of][v.Name()], value)
		}
	}
}

func (f *flow) give(v *types.Var, value ast.Expr) {
	f.values[v] = append(f.values[v], value)
	if value != nil {
		if _, call := ast.Unparen(value).(*ast.CallExpr); !call || f.dest[bare(value)] == nil {
			f.dest[bare(value)] = v // of a call's results the first
		}
	}
}

// fields returns what a literal of a struct gives to its fields.
func (f *flow) fields(lit *ast.CompositeLit) map[*types.Var]ast.Expr {
	s, ok := f.info.TypeOf(lit).Underlying().(*types.Struct)
	if !ok {
		if p, isPtr := f.info.TypeOf(lit).Underlying().(*types.Pointer); isPtr { // an element of a []*T
			s, ok = p.Elem().Underlying().(*types.Struct)
		}
	}
	if !ok {
		return nil
	}
	given := map[*types.Var]ast.Expr{}
	for i, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if v := f.variable(kv.Key); v != nil {
				given[v] = kv.Value
			}
		} else if i < s.NumFields() {
			given[s.Field(i)] = e
		}
	}
	return given
}

// field returns what a literal of a struct gives to the field of that name.
func (f *flow) field(lit *ast.CompositeLit, name string) ast.Expr {
	for v, value := range f.fields(lit) {
		if v.Name() == name {
			return value
		}
	}
	return nil
}

// bare returns e without parentheses and without a & in front.
func bare(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		return bare(u.X)
	}
	return e
}

// variable returns the variable or the field that e is, also behind a & or a *.
func (f *flow) variable(e ast.Expr) *types.Var {
	var obj types.Object
	switch e := bare(e).(type) {
	case *ast.Ident:
		obj = f.info.ObjectOf(e)
	case *ast.SelectorExpr:
		obj = f.info.ObjectOf(e.Sel)
	case *ast.StarExpr:
		return f.variable(e.X)
	}
	if v, ok := obj.(*types.Var); ok {
		return v.Origin()
	}
	return nil
}

// holder returns the variable or field that has what is assigned to e: also the map or the slice, for an element.
func (f *flow) holder(e ast.Expr) *types.Var {
	if index, ok := ast.Unparen(e).(*ast.IndexExpr); ok {
		return f.holder(index.X)
	}
	return f.variable(e)
}

// local reports whether v is a variable of a function.
func local(v *types.Var) bool {
	return v != nil && !v.IsField() && v.Pkg() != nil && v.Parent() != nil && v.Parent() != v.Pkg().Scope()
}

// all reports whether what e is, or everything that its variable is given, is so; false for what is not known.
func (f *flow) all(e ast.Expr, is func(ast.Expr) bool) bool {
	return f.follow(e, is, map[*types.Var]bool{})
}

func (f *flow) follow(e ast.Expr, is func(ast.Expr) bool, seen map[*types.Var]bool) bool {
	if e == nil {
		return false
	}
	if is(e) {
		return true
	}
	v := f.variable(e)
	if v == nil || seen[v] || len(f.values[v]) == 0 {
		return false
	}
	seen[v] = true
	for _, value := range f.values[v] {
		if !f.follow(value, is, seen) {
			return false
		}
	}
	return true
}

// one returns the only thing that e can be: what its variable is given, and so on, as far as there is one thing.
func (f *flow) one(e ast.Expr) ast.Expr {
	for range 10 { // a variable may be given itself
		v := f.variable(e)
		if v == nil || len(f.values[v]) != 1 || f.values[v][0] == nil {
			break
		}
		e = f.values[v][0]
	}
	return e
}

// callee returns the full name of what is called, such as (*net/http.Client).Do, or "".
func (f *flow) callee(call *ast.CallExpr) string {
	fn, ok := typeutil.Callee(f.info, call).(*types.Func)
	if !ok {
		return ""
	}
	return fn.Origin().FullName()
}

// isCall reports whether e is a call of one of the functions.
func (f *flow) isCall(e ast.Expr, names map[string]bool) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && names[f.callee(call)]
}

// literal returns e if it is a literal of the type, with or without &.
func (f *flow) literal(e ast.Expr, path, name string) *ast.CompositeLit {
	lit, ok := bare(e).(*ast.CompositeLit)
	if !ok || !isType(f.info.TypeOf(lit), path, name) {
		return nil
	}
	return lit
}

// isType reports whether t is the named type or a pointer to it.
func isType(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path
}

func isNil(info *types.Info, e ast.Expr) bool { return info.Types[ast.Unparen(e)].IsNil() }

// text returns the constant that e begins with, and whether e is no longer than that.
func (f *flow) text(e ast.Expr) (string, bool) {
	e = ast.Unparen(e)
	if tv := f.info.Types[e]; tv.Value != nil && tv.Value.Kind() == constant.String {
		return constant.StringVal(tv.Value), true
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			s, whole := f.text(e.X)
			if whole {
				if more, all := f.text(e.Y); all {
					return s + more, true
				}
			}
			return s, false
		}
	case *ast.CallExpr:
		if f.callee(e) == "fmt.Sprintf" && len(e.Args) > 0 {
			s, whole := f.text(e.Args[0])
			if before, _, cut := strings.Cut(s, "%"); cut {
				return before, false
			}
			return s, whole
		}
	case *ast.Ident, *ast.SelectorExpr:
		if v := f.variable(e); v != nil && len(f.values[v]) == 1 {
			if value := f.values[v][0]; value != nil {
				if tv := f.info.Types[value]; tv.Value != nil && tv.Value.Kind() == constant.String {
					return constant.StringVal(tv.Value), true
				}
			}
		}
	}
	return "", false
}
