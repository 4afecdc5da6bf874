// Package page is what a browser is shown of a registry: one document that says everything without a script, and a script
// that keeps it up to date and draws the last minutes. It loads nothing but the JSON of the handler that serves it.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page.html style.css history.js chart.js card.js live.js
var files embed.FS

// One module and one style within the document: there is no address to serve them from that a system's name, or the
// prefix that the handler is mounted under, could get in the way of.
var (
	script = read("history.js", "chart.js", "card.js", "live.js")
	style  = read("style.css")
)

// Policy is the Content-Security-Policy of a document, without what holds for every answer: our own script and style, as they
// are; the JSON; and the icon, which is within the document.
var Policy = "script-src " + hash(script) + "; style-src " + hash(style) + "; connect-src 'self'; img-src data:"

var document = template.Must(template.New("page").Funcs(template.FuncMap{
	"script":  func() template.JS { return template.JS(script) },  //nolint:gosec // ours
	"style":   func() template.CSS { return template.CSS(style) }, //nolint:gosec // ours
	"percent": func(share float64) int { return int(share*100 + 0.5) },
	"most":    func(share float64) float64 { return min(share, 1) },
	"words":   func(label string) string { return strings.ReplaceAll(label, "_", " ") },
}).ParseFS(files, "page.html"))

// Write answers with a view of v: "all", "one" or "missing".
func Write(w http.ResponseWriter, status int, view string, v any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = document.ExecuteTemplate(w, view, v) // the reader has gone
}

func read(names ...string) string {
	var all bytes.Buffer
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		all.Write(text)
	}
	return all.String()
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
