// Loc counts the lines of code of the packages in the given directories: no tests, no comments, no blanks.
// It fails when they reach -max together, or when a file has more than -max-file lines of any kind.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	limit := flag.Int("max", 1800, "fail when all lines of code together reach this")
	fileLimit := flag.Int("max-file", 300, "fail when a file has more lines than this, comments and blanks included")
	flag.Parse()
	if err := run(flag.Args(), *limit, *fileLimit); err != nil {
		fmt.Fprintln(os.Stderr, "loc:", err)
		os.Exit(1)
	}
}

func run(dirs []string, limit, fileLimit int) error {
	total, long := 0, []string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		sum, n := 0, 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			sum += codeLines(src)
			n++
			if all := bytes.Count(src, []byte("\n")); all > fileLimit {
				long = append(long, fmt.Sprintf("%s has %d lines, at most %d are allowed", file, all, fileLimit))
			}
		}
		if n == 0 { // a package that has moved must not drop out of the count
			return fmt.Errorf("no code in %s", dir)
		}
		fmt.Printf("%6d  %s (%d files)\n", sum, dir, n)
		total += sum
	}
	fmt.Printf("%6d  in all, below %d is allowed\n", total, limit)
	if total >= limit {
		long = append(long, fmt.Sprintf("%d lines of code, below %d are allowed", total, limit))
	}
	if len(long) > 0 {
		return fmt.Errorf("%s", strings.Join(long, "\n     "))
	}
	return nil
}

// codeLines counts the lines that hold at least a part of a token; the scanner leaves comments out.
func codeLines(src []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" { // put in by the scanner at a line's end, after a comment too
			continue
		}
		// A raw string goes over several lines, all of them code.
		for line := range 1 + strings.Count(lit, "\n") {
			lines[file.Line(pos)+line] = true
		}
	}
}
