package habits

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// BareClient finds clients of net/http without bulkhead, breaker and bounds.
var BareClient = habit("bareclient", "iso-1-iso-x1-iso-x2",
	"report http.DefaultClient and http.Clients without a guarded transport (ISO-1, TO-1)",
	`A partner that hangs holds every goroutine that calls it with such a client. Found are http.DefaultClient and the functions
over it (http.Get, …), an http.Client whose Transport is missing, http.DefaultTransport or a plain *http.Transport,
go-cleanhttp's clients, and a client of oapi-codegen without WithHTTPClient, which makes itself an http.Client.
Any other Transport is taken for a guarded one. Constant URLs of this machine (localhost, 127.0.0.1) may be called.`,
	bareClient)

const remedy = "make one client of the system with resilient.NewClient, and call that or its HTTPClient()"

func bareClient(p *pass) {
	p.each([]ast.Node{(*ast.Ident)(nil), (*ast.CompositeLit)(nil), (*ast.CallExpr)(nil), (*ast.ValueSpec)(nil)}, func(c inspector.Cursor) {
		switch n := c.Node().(type) {
		case *ast.Ident:
			p.bareName(c, n)
		case *ast.CompositeLit:
			if p.literal(n, "net/http", "Client") != nil && p.bareTransport(p.field(n, "Transport"), p.dest[n]) {
				p.bareLiteral(n)
			}
		case *ast.ValueSpec: // var client http.Client
			for _, name := range n.Names {
				if v, ok := p.info.Defs[name].(*types.Var); ok && len(n.Values) == 0 && isClient(v.Type()) &&
					len(p.values[v]) == 0 && p.bareTransport(nil, v) {
					p.bareLiteral(name)
				}
			}
		case *ast.CallExpr:
			p.bareCall(n)
		}
	})
}

func isClient(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return !pointer && isType(t, "net/http", "Client")
}

func (p *pass) bareLiteral(n ast.Node) {
	p.report(n, "an http.Client without bulkhead, breaker and bounds of its system's own (ISO-1, TO-1): %s", remedy)
}

// bareName looks at a use of http.DefaultClient or of a function over it.
func (p *pass) bareName(c inspector.Cursor, id *ast.Ident) {
	obj := p.info.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != "net/http" {
		return
	}
	fn, isFunc := obj.(*types.Func)
	if isFunc && !shortcuts[fn.FullName()] || !isFunc && (obj.Name() != "DefaultClient" || obj.Parent() != obj.Pkg().Scope()) {
		return
	}
	n := c
	if sel, ok := n.Parent().Node().(*ast.SelectorExpr); ok && sel.Sel == id {
		n = n.Parent()
	}
	switch up := n.Parent().Node().(type) {
	case *ast.CallExpr: // http.Get(url)
		if isFunc && up.Fun == n.Node() && len(up.Args) > 0 && loopback(p.host(up.Args[0])) {
			return
		}
	case *ast.SelectorExpr: // http.DefaultClient.Get(url)
		if call, ok := n.Parent().Parent().Node().(*ast.CallExpr); ok && !isFunc && len(call.Args) > 0 && p.toLoopback(call) {
			return
		}
	case *ast.BinaryExpr: // client == http.DefaultClient
		return
	}
	what := "http." + obj.Name()
	if isFunc {
		what += " uses http.DefaultClient, which"
	}
	p.report(n.Node(), "%s waits without bounds, and is everybody's (ISO-X1, TO-X1): %s", what, remedy)
}

// toLoopback reports whether a call of a client's method goes to this machine.
func (p *pass) toLoopback(call *ast.CallExpr) bool {
	switch name := p.callee(call); {
	case withURL[name]:
		return loopback(p.host(call.Args[0]))
	case withRequest[name]:
		return loopback(p.requestHost(call.Args[0]))
	}
	return false
}

// requestHost returns the host of a request whose URL is a constant.
func (f *flow) requestHost(e ast.Expr) string {
	call, ok := ast.Unparen(f.one(e)).(*ast.CallExpr)
	if !ok || !newRequests[f.callee(call)] || len(call.Args) < 3 {
		return ""
	}
	return f.host(call.Args[len(call.Args)-2])
}

// bareCall looks at new(http.Client), go-cleanhttp's clients and those of oapi-codegen.
func (p *pass) bareCall(call *ast.CallExpr) {
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok && len(call.Args) == 1 {
		if b, ok := p.info.Uses[id].(*types.Builtin); ok && b.Name() == "new" && isClient(p.info.TypeOf(call.Args[0])) {
			if p.bareTransport(nil, p.dest[call]) {
				p.bareLiteral(call)
			}
			return
		}
	}
	if cleanClients[p.callee(call)] {
		if p.bareTransport(nil, p.dest[call]) {
			p.bareLiteral(call)
		}
		return
	}
	pkg := p.generatedClient(call)
	if pkg == nil || call.Ellipsis.IsValid() {
		return
	}
	for _, option := range call.Args[1:] {
		// An option of the caller's own may set the client.
		if client, from := p.httpClientOption(option); client != nil || from != pkg {
			return
		}
	}
	if loopback(p.host(call.Args[0])) {
		return
	}
	p.report(call, "this generated client makes itself a bare http.Client (ISO-1, TO-1): make one of the system with resilient.NewClient, and give it %s.WithHTTPClient(client)", pkg.Name())
}

// bareTransport reports whether a client with that transport, which goes to v, is not guarded.
func (p *pass) bareTransport(rt ast.Expr, v *types.Var) bool {
	if v != nil {
		for _, later := range p.sets[v]["Transport"] {
			if !p.all(later, p.unguarded) {
				return false
			}
		}
	}
	return rt == nil || p.all(rt, p.unguarded)
}

// unguarded reports whether a transport is known to be net/http's own.
func (p *pass) unguarded(e ast.Expr) bool {
	return p.isDefault(e) || isType(p.info.TypeOf(e), "net/http", "Transport")
}

// isDefault reports whether a transport is everybody's.
func (p *pass) isDefault(e ast.Expr) bool {
	v := p.variable(e)
	return isNil(p.info, e) || v != nil && v.Pkg() != nil && v.Pkg().Path() == "net/http" && v.Name() == "DefaultTransport"
}
