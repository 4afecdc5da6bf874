// Apicheck keeps the exported API of the library from changing unseen.
//
// The API of each package is listed in api, a line for each thing, so that a
// change of it is a line of a diff; apicheck fails when the listing is not what
// the code says, and -write writes it.
//
// From the first tag v* on it also compares with the last of them, as users will,
// and fails for each change that may keep their code from compiling, unless
// api/breaks.txt has it: a line as apicheck prints it, until the next tag.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("C", ".", "the `directory` of the module")
	write := flag.Bool("write", false, "write the listing")
	flag.Parse()
	if err := run(*dir, *write); err != nil {
		fmt.Fprintln(os.Stderr, "apicheck:", err)
		os.Exit(1)
	}
}

func run(dir string, write bool) error {
	now, err := load(dir)
	if err != nil {
		return err
	}
	if write {
		return writeListings(dir, now)
	}
	return errors.Join(checkListings(dir, now), checkRelease(dir, now))
}
