package page

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var screenshot = flag.String("screenshot", "", "write what the demo's page looks like after a minute to that file; by default it is only looked at")

// The demo serves the page: a bank hangs there again and again, and its breaker opens. The README's picture is made here.
func TestDemo(t *testing.T) {
	at := demo(t)
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if to := resp.Request.URL.Path; to != "/debug/resilient/" {
		t.Errorf("/ leads to %s", to)
	}
	b := open(t, at+"debug/resilient/", 1000, 640)
	b.until(`document.querySelectorAll(".card").length === 2`)
	b.until(`document.title === "(1 open) resilient" && ` + text(card("sber", ".state")) + `.endsWith("open")`)
	if *screenshot != "" {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			b.until("true") // the browser is there
		}
		b.until(text(card("sber", ".why")) + `.includes("probes in") && ` + text(card("sber", ".refusals-chart")) + `.includes("open")`)
	}
	image := get(b, chromedp.CaptureScreenshot())
	if shown, err := png.Decode(bytes.NewReader(image)); err != nil || shown.Bounds().Dx() != 1000 {
		t.Errorf("no picture: %v", err)
	}
	if len(image) > 200<<10 {
		t.Errorf("a picture of %d bytes: too large for a README", len(image))
	}
	if *screenshot != "" {
		if err := os.WriteFile(*screenshot, image, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// demo starts the demo and returns where it serves.
func demo(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "demo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../cmd/demo"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background()) // t's own ends before the cleanups
	cmd := exec.CommandContext(ctx, program, "-serve", "-port", "0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if at := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(lines.Text()); at != "" {
				select {
				case found <- at:
				default:
				}
			}
		}
	}()
	select {
	case at := <-found:
		return at
	case <-time.After(patience):
		t.Fatal("the demo does not say where it serves")
		return ""
	}
}
