package main

// A suite is the tests of one library.
type suite struct {
	name    string
	what    string
	module  string // empty: the toolchain's
	version string
	sum     string // of the module, as in go.sum: what is run is what was meant

	seconds  int      // it takes about that, if it is long: such are begun first
	packages []string // relative to the module, or import paths of the toolchain's
	unfit    []note   // not run at all: what they need is not here
	excluded []note   // not run wrapped: they look inside *http.Transport
	differs  []note   // run, and counted as failed when they fail: what they ask for is not what the library does
}

// A note is about tests: the slash-separated regular expressions of `go test -run`, each matching a whole name.
type note struct{ tests, reason string }

const cancelRequest = "cancels with Transport.CancelRequest, which knows requests by identity: of the transport itself, behind the client's back"

const ahead = "a request that can't be sent is refused before any transport sees it, so that it takes nothing; " +
	"the test counts what its own transport, below, sees"

const earlier = "Our error comes a tenth of the time before the caller's deadline (100 ms at most), so that it, which says more, is " +
	"what the caller gets; it is a timeout and matches context.DeadlineExceeded too"

var suites = []suite{
	{
		name: "net/http", seconds: 60, what: "the standard library's client, transport and server",
		packages: []string{"net/http", "net/http/cookiejar", "net/http/httptest", "net/http/httputil"},
		unfit: []note{
			{"TestOmitHTTP2|TestOmitHTTP2Vet|TestCmdGoNoHTTPServer", "run the go command, no client"},
		},
		excluded: []note{
			{"TestTransportAndServerSharedBodyRace/h1", cancelRequest},
			{"TestTransportCancelRequest/h1/TransportCancel|TestTransportCancelRequestInDial/h1/TransportCancel|TestTransportCancelRequestWithBody/h1/TransportCancel", cancelRequest},
			{"TestReverseProxyCancellation", cancelRequest},
		},
		differs: []note{
			{"TestClientTimeout|TestClientTimeout_Headers", "wants the words \"Client.Timeout exceeded\". " + earlier},
			{"TestTransportClosesBodyOnInvalidRequests/h1/invalid_method|TestTransportClosesBodyOnInvalidRequests/h2/invalid_method|" +
				"TestTransportClosesBodyOnInvalidRequests/h1/invalid_header_key|TestTransportClosesBodyOnInvalidRequests/h2/invalid_header_key|" +
				"TestValidateClientRequestTrailers/h1/h11|TestValidateClientRequestTrailers/h2/h21", "wants the value in the error. Ours has net/http's words without it, since it may be a secret"},
			{"TestAltProtoCancellation", "wants the error with which a transport answered the end of Client.Timeout. " + earlier},
		},
	},
	{
		name: "coder/websocket", what: "WebSocket, client and server",
		module: "github.com/coder/websocket", version: "v1.8.15", sum: "h1:6B2JPeOGlpff2Uz6vOEH1Vzpi0iUz20A+lPVhPHtNUA=",
		packages: []string{"./..."},
		differs: []note{
			{"TestConn/netConn", "wants the address of a net.Conn that its own transport answers a 101 with, every second time at random. " +
				"Ours is an io.ReadWriteCloser, which is all that net/http promises and has"},
		},
	},
	{
		name: "tmaxmax/go-sse", what: "server-sent events, client and server",
		module: "github.com/tmaxmax/go-sse", version: "v0.12.0", sum: "h1:ecYxU1Xa/BviAZ+lHr3/KZd6N6UcIjjCh+8jPW7ov7Y=",
		packages: []string{"./..."},
		differs: []note{
			{"TestConnection_Connect_resetBody", "takes an error for the caller's end only if the context has ended. " + earlier},
		},
	},
	{
		name: "launchdarkly/eventsource", what: "server-sent events, a client that reconnects",
		module: "github.com/launchdarkly/eventsource", version: "v1.11.0", sum: "h1:aAdvh2XmtXA17QsRFL0XKHURMqhxg7J+CceQmhSzBas=",
		packages: []string{"."},
		unfit: []note{
			{"TestServerHandlesLoadsOfPendingTasks", "hangs now and then, bare too: it closes a server whose stream nobody closes"},
		},
	},
	{
		name: "r3labs/sse", what: "server-sent events, client and server",
		module: "github.com/r3labs/sse/v2", version: "v2.10.0", sum: "h1:hFEkLLFY4LDifoHdiCN/LlGBAdVJYsANaLqNYa1l/v0=",
		packages: []string{"."},
	},
	{
		name: "connectrpc/connect", seconds: 60, what: "RPC over HTTP/1.1 and HTTP/2, with streams",
		module: "connectrpc.com/connect", version: "v1.21.1", sum: "h1:h2kacdlzXpZU2OQFSv98xkjYXNUSr/ptxmGVbS/+CRM=",
		packages: []string{"."},
	},
	{
		name: "go-resty/resty", seconds: 160, what: "REST",
		module: "github.com/go-resty/resty/v2", version: "v2.17.2", sum: "h1:FQW5oHYcIlkCNrMD2lloGScxcHJ0gkjshV3qcQAyHQk=",
		packages: []string{"."},
	},
	{
		name: "hashicorp/go-retryablehttp", seconds: 60, what: "retries around a client",
		module: "github.com/hashicorp/go-retryablehttp", version: "v0.7.8", sum: "h1:ylXZWnqa7Lhqpk0L1P1LzDtGcCR0rPVUrx/c8Unxc48=",
		packages: []string{"."},
		differs: []note{
			{"TestClient_DefaultRetryPolicy_invalidheadername|TestClient_DefaultRetryPolicy_invalidheadervalue", ahead},
		},
	},
	{
		name: "gojek/heimdall", what: "retries and Hystrix around a client",
		module: "github.com/gojek/heimdall/v7", version: "v7.0.3", sum: "h1:+5sAhl8S0m+qRRL8IVeHCJudFh/XkG3wyO++nvOg+gc=",
		packages: []string{"./..."},
	},
	{
		name: "minio/minio-go", seconds: 120, what: "S3",
		module: "github.com/minio/minio-go/v7", version: "v7.4.1", sum: "h1:PtU/zIOfQRWZ+QydXAZysc+xZYHdG+BBR4Z6TUvy73w=",
		packages: []string{".", "./pkg/credentials"},
		differs: []note{
			{"TestHealthCheck", "has a probe of its own at the very moment of its deadline. " + earlier},
		},
	},
	{
		name: "modelcontextprotocol/go-sdk", what: "MCP: JSON-RPC over streams of server-sent events",
		module: "github.com/modelcontextprotocol/go-sdk", version: "v1.8.0", sum: "h1:KIvahhYqwtbeniWVPs3TcXEA7b8jEtwfBpOTAI+Urx4=",
		packages: []string{"./mcp", "./auth/..."},
	},
	{
		name: "slack-go/slack", what: "Slack's REST API, its WebSocket one",
		module: "github.com/slack-go/slack", version: "v0.36.0", sum: "h1:YZTAijN2MWhKgpH22kxcygiRK+V9N+UW8yXlPIMpoOo=",
		packages: []string{"."},
	},
	{
		name: "sashabaranov/go-openai", what: "OpenAI's REST API, with streams of events",
		module: "github.com/sashabaranov/go-openai", version: "v1.43.0", sum: "h1:HNRpO8TAQ01ssO7aPXO/68QRlcCCYQQ5GfHbFceRZcY=",
		packages: []string{"."},
	},
	{
		name: "digitalocean/godo", what: "DigitalOcean's REST API",
		module: "github.com/digitalocean/godo", version: "v1.240.0", sum: "h1:hNcBtV4ZsOiLlSFZ5HZ0+vGDgXEQtx2sjFC+wb1o7tw=",
		packages: []string{"."},
	},
	{
		name: "studio-b12/gowebdav", what: "WebDAV",
		module: "github.com/studio-b12/gowebdav", version: "v0.13.0", sum: "h1:OcwSg6IQHOFNdYHn3bPOHwSE8looG8N56Y5xTT1asqQ=",
		packages: []string{"."},
	},
	{
		name: "carlmjohnson/requests", what: "a fluent client",
		module: "github.com/carlmjohnson/requests", version: "v0.23.5", sum: "h1:NPANcAofwwSuC6SIMwlgmHry2V3pLrSqRiSBKYbNHHA=",
		packages: []string{"./..."},
	},
	{
		name: "dghubble/sling", what: "a fluent client",
		module: "github.com/dghubble/sling", version: "v1.4.2", sum: "h1:vs1HIGBbSl2SEALyU+irpYFLZMfc49Fp+jYryFebQjM=",
		packages: []string{"."},
	},
}
