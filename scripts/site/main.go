// Command site builds the documentation as a static site: every Markdown file of the repository, a page for
// each Go package, the manual pages, and the figures of a run's report as a gallery.
//
//	site -out DIR [-python FILE] [-man DIR] [-report DIR] [-version V]
//
// It writes the sources of the site to DIR-src and runs MkDocs with the theme Material on them (decision 0035).
// The pages load nothing from other hosts. They work from the file system; search needs a web server.
//
// Exit codes: 0 built; 1 MkDocs found a link or an anchor without target; 64 usage; 74 cannot read or write.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "repository")
	flag.StringVar(&o.out, "out", "", "folder of the site; replaced")
	flag.StringVar(&o.python, "python", "build/venv/bin/python", "Python with the packages of scripts/requirements-test.txt")
	flag.StringVar(&o.man, "man", "", "folder with man1 and man5, as `ensemble man` writes them")
	flag.StringVar(&o.report, "report", "", "folder of a report, as `ensemble report` writes it, for the gallery")
	flag.StringVar(&o.version, "version", "", "version of the program, in the footer")
	flag.Parse()
	if o.out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: site -out DIR [-python FILE] [-man DIR] [-report DIR] [-version V]")
		os.Exit(64)
	}
	err := build(o)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(74)
	}
}
