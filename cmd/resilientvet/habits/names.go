package habits

import (
	"go/ast"
	"go/types"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

var (
	// What makes a client of ours.
	newClients = set(library+".NewClient", "(*"+library+".Registry).NewClient")
	// What makes a client of net/http with a transport that has bounds for nothing but dialling.
	cleanClients = set("github.com/hashicorp/go-cleanhttp.DefaultClient", "github.com/hashicorp/go-cleanhttp.DefaultPooledClient")
	// What makes a pool of connections.
	newPools = set("(*net/http.Transport).Clone", library+"/transport.Base",
		"github.com/hashicorp/go-cleanhttp.DefaultTransport", "github.com/hashicorp/go-cleanhttp.DefaultPooledTransport")

	httpClient   = set("(*" + library + ".Client).HTTPClient")
	wrap         = set("(*" + library + ".Client).Wrap")
	newRequests  = set("net/http.NewRequest", "net/http.NewRequestWithContext")
	shortcuts    = set("net/http.Get", "net/http.Head", "net/http.Post", "net/http.PostForm")
	withURL      = set("(*net/http.Client).Get", "(*net/http.Client).Head", "(*net/http.Client).Post", "(*net/http.Client).PostForm")
	withRequest  = set("(*net/http.Client).Do", "(*"+library+".Client).Do", "(*"+library+".Client).RoundTrip")
	executions   = set(library+".Execute", "("+library+".Call[T]).Do")
	noBodyToRead = set("net/http.Head", "(*net/http.Client).Head", "(*net/http/httptest.ResponseRecorder).Result")
)

// generatedClient returns the package of oapi-codegen's code whose NewClient or NewClientWithResponses is called.
func (f *flow) generatedClient(call *ast.CallExpr) *types.Package {
	fn, ok := typeutil.Callee(f.info, call).(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Name() != "NewClient" && fn.Name() != "NewClientWithResponses" || fn.Signature().Recv() != nil {
		return nil
	}
	if scope := fn.Pkg().Scope(); scope.Lookup("HttpRequestDoer") == nil || scope.Lookup("WithHTTPClient") == nil {
		return nil
	}
	if !fn.Signature().Variadic() || len(call.Args) == 0 {
		return nil
	}
	return fn.Pkg()
}

// httpClientOption returns the client that is given by an option of the generated package.
func (f *flow) httpClientOption(e ast.Expr) (client ast.Expr, from *types.Package) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil, nil
	}
	fn, ok := typeutil.Callee(f.info, call).(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Signature().Recv() != nil {
		return nil, nil
	}
	if fn.Name() == "WithHTTPClient" && len(call.Args) == 1 {
		return call.Args[0], fn.Pkg()
	}
	return nil, fn.Pkg()
}

// host returns the host that a URL begins with, with its port, or "" if that is not wholly in it.
func (f *flow) host(e ast.Expr) string {
	s, whole := f.text(e)
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !strings.HasPrefix(scheme, "http") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	} else if !whole {
		return ""
	}
	u, err := url.Parse("http://" + rest)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	name := strings.Trim(host, "[]")
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && addr.IsLoopback()
}

// owner returns what of a host tells whose it is: the last two labels of its
// name, since a partner's API and its login have hosts of one domain.
func owner(host string) string {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	labels := strings.Split(name, ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || len(labels) < 3 {
		return name
	}
	return strings.Join(labels[len(labels)-2:], ".")
}
