package habits

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// BodyClose finds bodies of responses that nobody closes.
//
// It is not github.com/timakin/bodyclose: that takes a response for forgotten
// which goes to another package's function, into a struct, a map or a channel,
// and needs the SSA form of every dependency. Here what goes elsewhere is
// somebody's, and what is reported stays in one function that never closes it.
var BodyClose = habit("bodyclose", "bh-1",
	"report bodies of responses that are not closed (BH-1)",
	`A permit, a connection and an exchange are held until the body has been read to its end or closed: one that is forgotten
holds them until the total is over. Found are responses that are dropped, and those that stay in one function in which no
Body.Close is, be it on one way through it only. A response that is returned, kept, or given to a function, and a Body
that is given to one outside of the standard library, are those others' to close.`,
	bodyClose)

func bodyClose(p *pass) {
	p.each([]ast.Node{(*ast.ExprStmt)(nil), (*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)}, func(c inspector.Cursor) {
		switch n := c.Node().(type) {
		case *ast.ExprStmt:
			if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok && p.response(call) == 0 {
				p.report(call, "the response is dropped with its body open, which holds its permit and its connection (BH-1): take it, and close its Body")
			}
		case *ast.AssignStmt:
			p.body(c, n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i := range names {
				names[i] = n.Names[i]
			}
			p.body(c, names, n.Values)
		}
	})
}

// response returns which of the results of a call is a response whose body is to be closed, or -1.
func (p *pass) response(call *ast.CallExpr) int {
	if tv, ok := p.info.Types[call.Fun]; ok && tv.IsType() || noBodyToRead[p.callee(call)] {
		return -1
	}
	t := p.info.TypeOf(call)
	if tuple, ok := t.(*types.Tuple); ok {
		if tuple.Len() == 0 {
			return -1
		}
		t = tuple.At(0).Type()
	}
	if _, pointer := types.Unalias(t).(*types.Pointer); pointer && isType(t, "net/http", "Response") {
		return 0
	}
	return -1
}

// body looks at an assignment of what may be a response.
func (p *pass) body(c inspector.Cursor, to, from []ast.Expr) {
	for i, e := range from {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok || p.response(call) != 0 || len(from) > 1 && len(from) != len(to) {
			continue
		}
		if id, ok := to[i].(*ast.Ident); ok && id.Name == "_" {
			p.report(call, "the response is dropped with its body open, which holds its permit and its connection (BH-1): take it, and close its Body")
			continue
		}
		if v := p.variable(to[i]); local(v) && !p.closedOrGone(c, v) {
			p.report(call, "the body of %s is never closed, which holds its permit and its connection (BH-1): defer %[1]s.Body.Close() when err is nil", v.Name())
		}
	}
}

// closedOrGone reports whether the body of the response in v is closed somewhere, or may be by somebody else.
func (p *pass) closedOrGone(c inspector.Cursor, v *types.Var) bool {
	if slices.Contains(p.values[v], nil) { // a named result, or another function's to fill
		return true
	}
	whole := c
	for up := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		whole = up // the outermost: a variable may be one of the function around
	}
	for use := range whole.Preorder((*ast.Ident)(nil)) {
		if p.info.Uses[use.Node().(*ast.Ident)] != v {
			continue
		}
		up := use.Parent()
		switch n := up.Node().(type) {
		case *ast.SelectorExpr:
			switch n.Sel.Name {
			case "Body":
				if !p.reads(up) {
					return true
				}
			case "Write": // closes the body
				return true
			}
		case *ast.BinaryExpr: // resp != nil
		case *ast.AssignStmt: // resp, err = again(), but not kept = resp, other than _ = resp
			for i, r := range n.Rhs {
				if r == use.Node() && !blank(n.Lhs[i]) {
					return true
				}
			}
		default:
			return true
		}
	}
	return false
}

func blank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// reads reports whether a use of a body only reads from it.
func (p *pass) reads(body inspector.Cursor) bool {
	switch up := body.Parent().Node().(type) {
	case *ast.SelectorExpr:
		return up.Sel.Name != "Close"
	case *ast.BinaryExpr: // resp.Body == http.NoBody
		return true
	case *ast.CallExpr:
		return up.Fun != body.Node() && p.standard(up)
	}
	return false
}

// standard reports whether a call is of the standard library's, whose readers
// close nothing: but for net/http, where a body may become a request's.
func (p *pass) standard(call *ast.CallExpr) bool {
	fn, ok := typeutil.Callee(p.info, call).(*types.Func)
	if !ok || fn.Pkg() == nil {
		return false
	}
	path, own := fn.Pkg().Path(), p.Pkg.Path()
	first, _, _ := strings.Cut(path, "/")
	mine, _, _ := strings.Cut(own, "/")
	return !strings.Contains(first, ".") && first != mine && path != "net/http" && !strings.HasPrefix(path, "net/http/")
}
