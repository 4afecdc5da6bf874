package habits_test

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/resilient-go/resilient/cmd/resilientvet/habits"
)

// The generated clients that the analyzers are tried on.
//go:generate go tool -modfile=../../../tools/codegen/go.mod oapi-codegen -package bank -generate types,client -o testdata/bank/bank.gen.go testdata/status.yaml
//go:generate go tool -modfile=../../../tools/codegen/go.mod oapi-codegen -package insurer -generate types,client -o testdata/insurer/insurer.gen.go testdata/status.yaml

func TestMain(m *testing.M) {
	// analysistest asks no proxy: what the module of testdata needs has to be there.
	cmd := exec.Command("go", "list", "-deps", "./...")
	cmd.Dir = analysistest.TestData()
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	m.Run()
}

func TestBareClient(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), habits.BareClient, "./bareclient", "./bank")
}

func TestBodyClose(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), habits.BodyClose, "./bodyclose")
}

func TestPerRequest(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), habits.PerRequest, "./perrequest/...")
}

func TestClientTimeout(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), habits.ClientTimeout, "./clienttimeout")
}

func TestTwoSystems(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), habits.TwoSystems, "./twosystems")
}

// Tests are looked at when the flag says so.
func TestTests(t *testing.T) {
	tests := *habits.BareClient // a copy would share the flag: set and set back
	if err := tests.Flags.Set("tests", "true"); err != nil {
		t.Fatal(err)
	}
	defer tests.Flags.Set("tests", "false")
	analysistest.Run(t, analysistest.TestData(), &tests, "./tested")
}

func TestAnalyzers(t *testing.T) {
	if err := analysis.Validate(habits.Analyzers()); err != nil {
		t.Fatal(err)
	}
	for _, a := range habits.Analyzers() {
		if !strings.Contains(a.Doc, "//resilient:ignore") || a.Flags.Lookup("tests") == nil {
			t.Errorf("%s: no word of how to ignore it, or no flag tests", a.Name)
		}
	}
}
