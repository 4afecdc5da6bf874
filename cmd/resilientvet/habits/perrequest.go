package habits

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// PerRequest finds clients and pools that are made for each request.
var PerRequest = habit("perrequest", "iso-1-iso-x1-iso-x2",
	"report clients and transports that are made for each request (ISO-1)",
	`Such a client has a bulkhead of one, a breaker that has seen nothing and a pool whose connections nobody uses again; ours is
an ErrDuplicate from the second request on. Found is what makes a Client, an http.Client or an http.Transport in a
function that handles a request (it has an http.ResponseWriter or an *http.Request), and in any other function or loop that
sends with it and lets it go at its end. What is kept in a field, a variable of the package or a sync.Once is not found;
nor are main, init and other functions of a command outside of a loop.`,
	perRequest)

func perRequest(p *pass) {
	p.each([]ast.Node{(*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)}, func(c inspector.Cursor) {
		e := c.Node().(ast.Expr)
		what := p.builds(e)
		if what == "" || p.withinBuilder(c) || p.kept(p.goesTo(c), map[*types.Var]bool{}) {
			return
		}
		switch {
		case p.handler(c):
			p.report(e, "%s is made for each request (ISO-1): make it once, where the service starts, and keep it", what)
		case p.letGo(c):
			p.report(e, "%s is made for each call, and let go after it (ISO-1): make it once, where the service starts, and keep it", what)
		}
	})
}

// builds says what an expression makes, or "".
func (p *pass) builds(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		if p.literal(e, "net/http", "Transport") != nil {
			return "this http.Transport, a pool of connections,"
		}
		if p.literal(e, "net/http", "Client") != nil { // over what is elsewhere it is a struct, no more
			if rt := p.field(e, "Transport"); rt == nil || p.builds(bare(rt)) != "" || p.isDefault(rt) {
				return "this http.Client"
			}
		}
	case *ast.CallExpr:
		switch name := p.callee(e); {
		case newClients[name]:
			return "this client, with its bulkhead, breaker and pool,"
		case cleanClients[name]:
			return "this http.Client"
		case newPools[name]:
			return "this http.Transport, a pool of connections,"
		}
	}
	return ""
}

// withinBuilder reports whether what c is in makes a client too, of which it is a part.
func (p *pass) withinBuilder(c inspector.Cursor) bool {
	for up := range c.Parent().Enclosing((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil), (*ast.FuncLit)(nil)) {
		if e, ok := up.Node().(ast.Expr); ok && p.builds(e) != "" {
			return true
		}
		if _, ok := up.Node().(*ast.FuncLit); ok {
			return false
		}
	}
	return false
}

// kept reports whether what v holds outlives the call: v does, or is put into something that does.
func (p *pass) kept(v *types.Var, seen map[*types.Var]bool) bool {
	if v == nil || seen[v] {
		return false
	}
	seen[v] = true
	if !local(v) {
		return true
	}
	for use := range p.root.Preorder((*ast.Ident)(nil)) {
		id := use.Node().(*ast.Ident)
		if p.info.Uses[id] != v {
			continue
		}
		switch up := use.Parent().Node().(type) {
		case *ast.AssignStmt:
			for i, r := range up.Rhs {
				if r != id || len(up.Lhs) != len(up.Rhs) {
					continue
				}
				if p.kept(p.holder(up.Lhs[i]), seen) {
					return true
				}
			}
		case *ast.KeyValueExpr: // server{client: client}
			if up.Value == id && p.kept(p.goesTo(use.Parent()), seen) {
				return true
			}
		case *ast.CallExpr: // cache.Store(name, client)
			if fn, ok := typeutil.Callee(p.info, up).(*types.Func); ok && slices.Contains(up.Args, ast.Expr(id)) &&
				fn.Signature().Recv() != nil && isType(fn.Signature().Recv().Type(), "sync", "Map") {
				return true
			}
		}
	}
	return false
}

// handler reports whether c is in a function that handles a request.
func (p *pass) handler(c inspector.Cursor) bool {
	for up := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		var fn *ast.FuncType
		switch n := up.Node().(type) {
		case *ast.FuncDecl:
			fn = n.Type
		case *ast.FuncLit:
			fn = n.Type
			if call, ok := up.Parent().Node().(*ast.CallExpr); ok && p.once(call) {
				return false
			}
		}
		for _, param := range fn.Params.List {
			t := p.info.TypeOf(param.Type)
			if isType(t, "net/http", "ResponseWriter") || isType(t, "net/http", "Request") {
				return true
			}
		}
	}
	return false
}

// once reports whether a func given to that call runs once.
func (p *pass) once(call *ast.CallExpr) bool {
	switch p.callee(call) {
	case "(*sync.Once).Do", "sync.OnceFunc", "sync.OnceValue", "sync.OnceValues":
		return true
	}
	return false
}

// letGo reports whether the function or the loop that c is in sends with what it makes, and does nothing else with it.
func (p *pass) letGo(c inspector.Cursor) bool {
	fn, found := enclosing(c, (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil))
	if !found {
		return false
	}
	loop, looped := enclosing(c, (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil))
	looped = looped && loop.Node() != fn.Node()
	if decl, ok := fn.Node().(*ast.FuncDecl); !looped && (p.Pkg.Name() == "main" || ok && decl.Recv == nil && decl.Name.Name == "init") {
		return false
	}
	if call, ok := fn.Parent().Node().(*ast.CallExpr); ok && p.once(call) {
		return false
	}
	e := p.outermost(c)
	if sel, ok := e.Parent().Node().(*ast.SelectorExpr); ok { // (&http.Client{}).Do(req)
		call, ok := e.Parent().Parent().Node().(*ast.CallExpr)
		return ok && call.Fun == sel && p.sends(call)
	}
	v := p.goesTo(c)
	if !local(v) || looped && (v.Pos() < loop.Node().Pos() || v.Pos() > loop.Node().End()) {
		return false
	}
	return p.onlySends(fn, v, map[*types.Var]bool{})
}

// goesTo returns the variable that holds what c makes, or what that is a part of.
func (p *pass) goesTo(c inspector.Cursor) *types.Var {
	if e, ok := p.outermost(c).Node().(ast.Expr); ok {
		return p.dest[bare(e)]
	}
	return nil
}

// outermost returns the expression whose value has what c makes in it: the client, for a transport.
func (p *pass) outermost(c inspector.Cursor) inspector.Cursor {
	for {
		switch c.Parent().Node().(type) {
		case *ast.ParenExpr, *ast.UnaryExpr, *ast.KeyValueExpr, *ast.CompositeLit:
			c = c.Parent()
		default:
			return c
		}
	}
}

// onlySends reports whether a function sends with v, and v goes nowhere else.
func (p *pass) onlySends(fn inspector.Cursor, v *types.Var, seen map[*types.Var]bool) bool {
	if seen[v] {
		return false
	}
	seen[v] = true
	sent := false
	for use := range fn.Preorder((*ast.Ident)(nil)) {
		if p.info.Uses[use.Node().(*ast.Ident)] != v {
			continue
		}
		if in, _ := enclosing(use, (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)); in.Node() != fn.Node() && !deferred(in) {
			return false // a closure, which may live longer
		}
		up := use.Parent()
		switch n := up.Node().(type) {
		case *ast.SelectorExpr:
			if call, ok := up.Parent().Node().(*ast.CallExpr); ok && call.Fun == n {
				sent = sent || p.sends(call)
			} else if !settled(up) {
				return false
			}
		case *ast.BinaryExpr: // client != nil
		case *ast.CallExpr: // resilient.Execute(ctx, client, …)
			if !executions[p.callee(n)] {
				return false
			}
			sent = true
		case *ast.KeyValueExpr: // client := &http.Client{Transport: transport}
			lit, ok := up.Parent().Node().(*ast.CompositeLit)
			if !ok || p.literal(lit, "net/http", "Client") == nil {
				return false
			}
			client := p.dest[lit]
			if !local(client) || !p.onlySends(fn, client, seen) {
				return false
			}
			sent = true
		case *ast.AssignStmt:
			if !slices.Contains(n.Lhs, ast.Expr(use.Node().(*ast.Ident))) {
				return false
			}
		default:
			return false
		}
	}
	return sent
}

// settled reports whether a field is given a value: client.Timeout = x.
func settled(field inspector.Cursor) bool {
	assign, ok := field.Parent().Node().(*ast.AssignStmt)
	return ok && slices.Contains(assign.Lhs, field.Node().(ast.Expr))
}

// deferred reports whether a func literal is called where it stands.
func deferred(lit inspector.Cursor) bool {
	call, ok := lit.Parent().Node().(*ast.CallExpr)
	return ok && call.Fun == lit.Node()
}

func (p *pass) sends(call *ast.CallExpr) bool {
	name := p.callee(call)
	return withURL[name] || withRequest[name] || name == "(*net/http.Transport).RoundTrip"
}

func enclosing(c inspector.Cursor, types ...ast.Node) (inspector.Cursor, bool) {
	for up := range c.Enclosing(types...) {
		return up, true
	}
	return c, false
}
