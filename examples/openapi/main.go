// Command openapi writes the bank's description as Swagger 2.0, which is what go-swagger reads; the other
// generators read OpenAPI 3. So there is one source, and no second file to keep up with it by hand.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi FROM.yaml TO.json")
		os.Exit(2)
	}
	if err := convert(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func convert(from, to string) error {
	three, err := openapi3.NewLoader().LoadFromFile(from)
	if err != nil {
		return err
	}
	two, err := openapi2conv.FromV3(three)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(two, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o644)
}
