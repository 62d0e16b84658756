// Command site makes the documentation as pages of HTML: every Markdown file of the
// repository, in the order in which README.md lists them, and the manual pages.
//
//	site -out DIR [-man DIR] [-version V]
//
// Pages lie where their sources lie, need nothing from elsewhere, and link each other.
//
// Exit: 0 made; 1 a link leads nowhere, all of them named; 64 wrong flags; 74 cannot
// read or write.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the repository")
	out := flag.String("out", "", "the folder for the pages, which is made anew")
	man := flag.String("man", "", "a folder with man1 and man5, as `ensemble man` writes them")
	version := flag.String("version", "", "which version of the program the pages are of")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: site -out DIR [-man DIR] [-version V]")
		os.Exit(64)
	}
	dead, err := build(*root, *out, *man, *version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(74)
	}
	if len(dead) > 0 {
		fmt.Fprintln(os.Stderr, "site: links that lead nowhere:\n"+strings.Join(dead, "\n"))
		os.Exit(1)
	}
}
