package habits

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// TwoSystems finds a client that calls two systems.
var TwoSystems = habit("twosystems", "iso-1-iso-x1-iso-x2",
	"report one client that is used for two systems (ISO-X1)",
	`When one of them hangs its calls take the permits of both, and open the breaker of both. Found is a variable or field
with one client, ours or net/http's, that calls constant URLs of two domains, or is given to generated clients of two packages
or two SDKs (WithHTTPClient, SetHTTPClient, a field HTTPClient) that are not both told to call the same host. Hosts whose names
end in the same two labels are one system's: an API and its login.`,
	twoSystems)

// A call is one use of a client for a system.
type call struct {
	at    ast.Node
	owner string // whose host is called; "" if that is not known
	pkg   string // the package that is given the client, if one is
}

func twoSystems(p *pass) {
	calls := map[*types.Var][]call{}
	p.each([]ast.Node{(*ast.CallExpr)(nil), (*ast.AssignStmt)(nil), (*ast.CompositeLit)(nil)}, func(c inspector.Cursor) {
		add := func(client ast.Expr, at ast.Node, host, pkg string) {
			v := p.client(client)
			if v == nil || loopback(host) || host == "" && pkg == "" {
				return
			}
			calls[v] = append(calls[v], call{at, owner(host), pkg})
		}
		switch n := c.Node().(type) {
		case *ast.CallExpr:
			p.called(n, add)
		case *ast.AssignStmt: // sdk.HTTPClient = client
			for i, to := range n.Lhs {
				if value := nth(n.Rhs, len(n.Lhs), i); value != nil {
					if pkg := p.sdk(p.variable(to)); pkg != "" {
						add(value, value, "", pkg)
					}
				}
			}
		case *ast.CompositeLit: // sdk.Config{HTTPClient: client}
			for v, value := range p.fields(n) {
				if pkg := p.sdk(v); pkg != "" {
					add(value, value, "", pkg)
				}
			}
		}
	})
	for v, uses := range calls {
		slices.SortStableFunc(uses, func(a, b call) int { return cmp.Compare(a.at.Pos(), b.at.Pos()) })
		for i, u := range uses {
			if first := slices.IndexFunc(uses[:i], func(f call) bool { return other(f, u) }); first >= 0 {
				p.report(u.at, "%s calls %s here, and %s on line %d: one that hangs takes the permits and opens the breaker of both (ISO-X1); make a client of its own for each with resilient.NewClient",
					v.Name(), u, uses[first], p.line(uses[first].at.Pos()))
				break // once for each client
			}
		}
	}
}

func (p *pass) line(pos token.Pos) int { return p.Fset.Position(pos).Line }

// String says what system it is.
func (c call) String() string {
	if c.owner != "" {
		return c.owner
	}
	return "the system of package " + c.pkg
}

// other reports whether two calls are of different systems, as far as that is known.
func other(a, b call) bool {
	if a.owner != "" && b.owner != "" {
		return a.owner != b.owner
	}
	return a.pkg != "" && b.pkg != "" && a.pkg != b.pkg
}

// called looks at a call that may send a request or give a client to another package.
func (p *pass) called(n *ast.CallExpr, add func(client ast.Expr, at ast.Node, host, pkg string)) {
	sel, method := ast.Unparen(n.Fun).(*ast.SelectorExpr)
	switch name := p.callee(n); {
	case len(n.Args) == 0:
	case withURL[name] && method:
		add(sel.X, n, p.host(n.Args[0]), "")
	case withRequest[name] && method:
		add(sel.X, n, p.requestHost(n.Args[0]), "")
	case p.generatedClient(n) != nil:
		pkg := p.generatedClient(n)
		for _, option := range n.Args[1:] {
			if client, from := p.httpClientOption(option); client != nil && from == pkg {
				add(client, n, p.host(n.Args[0]), pkg.Path())
			}
		}
	default:
		p.given(n, add)
	}
}

// given looks at an SDK's WithHTTPClient(client) and SetHTTPClient(client).
func (p *pass) given(n *ast.CallExpr, add func(client ast.Expr, at ast.Node, host, pkg string)) {
	fn, ok := typeutil.Callee(p.info, n).(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Pkg() == p.Pkg || len(n.Args) != 1 {
		return
	}
	switch fn.Name() {
	case "WithHTTPClient", "SetHTTPClient":
		if fn.Pkg().Scope().Lookup("HttpRequestDoer") == nil { // else the call it is an argument of tells more
			add(n.Args[0], n, "", fn.Pkg().Path())
		}
	}
}

// sdk returns the package of a field HTTPClient of another package, or "".
func (p *pass) sdk(v *types.Var) string {
	if v == nil || !v.IsField() || v.Name() != "HTTPClient" || v.Pkg() == nil || v.Pkg() == p.Pkg {
		return ""
	}
	return v.Pkg().Path()
}

// client returns the variable or field that holds the one client that e is, or nil.
func (p *pass) client(e ast.Expr) *types.Var {
	for range 10 {
		if c, ok := ast.Unparen(e).(*ast.CallExpr); ok && httpClient[p.callee(c)] { // client.HTTPClient()
			if sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr); ok {
				e = sel.X
			}
		}
		if lit := p.literal(e, "net/http", "Client"); lit != nil && p.field(lit, "Transport") != nil {
			e = p.field(lit, "Transport")
		}
		v := p.variable(e)
		if v == nil || v.Pkg() != p.Pkg {
			return nil // http.DefaultClient is bareclient's
		}
		switch values := p.values[v]; {
		case len(values) > 1:
			return nil // now this one, then that
		case len(values) == 1 && values[0] != nil && p.alias(values[0]):
			e = values[0]
		default:
			return v
		}
	}
	return nil
}

// alias reports whether e is the client of another variable.
func (p *pass) alias(e ast.Expr) bool {
	if v := p.variable(e); v != nil {
		return v.Pkg() == p.Pkg
	}
	if p.isCall(e, httpClient) {
		return true
	}
	lit := p.literal(e, "net/http", "Client")
	if lit == nil {
		return false
	}
	rt := p.field(lit, "Transport")
	return rt != nil && p.variable(rt) != nil
}
