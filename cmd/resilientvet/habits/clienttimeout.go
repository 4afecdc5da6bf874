package habits

import (
	"go/ast"
	"go/constant"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// ClientTimeout finds http.Client.Timeout set over a client of ours.
var ClientTimeout = habit("clienttimeout", "to-1-to-x1-to-x2-to-x3",
	"report http.Client.Timeout set on a client of ours (TO-1)",
	`The bounds of a client are in its Config. Timeout beside them covers redirects and the wait for a permit too, hides what
ended a request from the breaker and from the caller, and rewrites the error: such a call counts as a caller's cancel.
Found is Timeout of what HTTPClient() returned, and of an http.Client whose Transport is a Client or what Wrap returned.`,
	clientTimeout)

func clientTimeout(p *pass) {
	p.each([]ast.Node{(*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil)}, func(c inspector.Cursor) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if p.literal(n, "net/http", "Client") == nil {
				return
			}
			if timeout := p.field(n, "Timeout"); timeout != nil && p.oursLiteral(n) {
				p.timeout(timeout, timeout)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				sel, ok := ast.Unparen(to).(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Timeout" || !isType(p.info.TypeOf(sel.X), "net/http", "Client") {
					continue
				}
				if p.all(sel.X, p.ours) || p.transportOurs(sel.X) {
					p.timeout(to, nth(n.Rhs, len(n.Lhs), i))
				}
			}
		}
	})
}

func (p *pass) timeout(at ast.Node, value ast.Expr) {
	if value != nil {
		if c := p.info.Types[value].Value; c != nil && c.Kind() == constant.Int && constant.Sign(c) == 0 {
			return
		}
	}
	p.report(at, "Timeout over a client of ours hides from its breaker what ended a request (TO-1): leave it 0, and set TotalTimeout in the Config, or WithBounds for one request")
}

// ours reports whether an http.Client is over a client of ours.
func (p *pass) ours(e ast.Expr) bool {
	if p.isCall(e, httpClient) {
		return true
	}
	lit := p.literal(e, "net/http", "Client")
	return lit != nil && p.oursLiteral(lit)
}

func (p *pass) oursLiteral(lit *ast.CompositeLit) bool {
	if rt := p.field(lit, "Transport"); rt != nil {
		return p.all(rt, p.guarded)
	}
	v := p.dest[lit]
	return v != nil && p.laterOurs(v)
}

// transportOurs reports whether the Transport of the client that e is is set to ours.
func (p *pass) transportOurs(e ast.Expr) bool {
	v := p.variable(e)
	return v != nil && p.laterOurs(v)
}

func (p *pass) laterOurs(v *types.Var) bool {
	later := p.sets[v]["Transport"]
	for _, rt := range later {
		if !p.all(rt, p.guarded) {
			return false
		}
	}
	return len(later) > 0
}

// guarded reports whether a transport is a client of ours, or what its Wrap returned.
func (p *pass) guarded(e ast.Expr) bool {
	return isType(p.info.TypeOf(e), library, "Client") || p.isCall(e, wrap)
}
