package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func manCommand(a *app) *cobra.Command {
	var dir, date string
	cmd := &cobra.Command{
		Use:   "man --out DIR",
		Short: "Write manual pages",
		Long: "Write manual pages of all commands, generated from their help, and of the\n" +
			"configuration files. Packages install them; after a build by hand, write them\n" +
			"into a directory of MANPATH.",
		Example: "  ensemble man --out ~/.local/share/man\n" +
			"  man ensemble-train\n" +
			"  ensemble man --out build/man --date 2026-01-01",
		Annotations: annotations("ensemble help, ensemble completion", exit.CannotWrite, exit.IO),
		Args:        noArgs,
	}
	cmd.Flags().StringVarP(&dir, "out", "o", "", "`DIR` for the subdirectories man1 and man5")
	cmd.Flags().StringVar(&date, "date", "", "`DATE` printed on the pages (default today)")
	cmd.RunE = a.runJob(func(context.Context, []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
			return result{}, err
		}
		day := time.Now().UTC()
		if date != "" {
			var err error
			if day, err = time.Parse(time.DateOnly, date); err != nil {
				return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid date %q", date), At: "--date", Fix: "write it like 2026-01-31", Err: err}
			}
		}
		var files []string
		for _, p := range manual(a.root, day) {
			path := filepath.Join(dir, "man"+p.section, p.name+"."+p.section)
			if err := filesystem.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return result{}, exit.CreateError(path, err)
			}
			if err := atomicfile.WriteFile(path, []byte(p.text.String())); err != nil {
				return result{}, exit.CreateError(path, err)
			}
			files = append(files, path)
		}
		return result{outputs: files, text: func(w io.Writer) error { return printLines(w, files) }}, nil
	})
	return cmd
}

// manPage is one manual page in the macros of man(7), for groff and mandoc.
type manPage struct {
	name, section string
	day           time.Time
	text          strings.Builder
}

// manSchemas lists the configuration files that have a manual page.
var manSchemas = []struct {
	name, what, see string
	schema          *config.Schema
}{
	{"ensemble-train.yaml", "configuration of a training", "ensemble train, ensemble config explain", config.TrainSchema},
	{"ensemble-predict.yaml", "configuration of predictions", "ensemble predict, ensemble config explain", config.PredictSchema},
}

// manual returns the pages of the program, its commands, the decoding program and the
// configuration files. It escapes the help texts of the flags for Markdown in place: root must
// not be used for other help afterwards.
func manual(root *cobra.Command, day time.Time) []*manPage {
	known := map[string]string{} // command line -> reference
	var pages []*manPage
	var list func(*cobra.Command) []*cobra.Command
	list = func(cmd *cobra.Command) []*cobra.Command {
		known[cmd.CommandPath()] = pageName(cmd) + "(1)"
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "<", `\<`) }) // not an HTML tag
		all := []*cobra.Command{cmd}
		for _, sub := range visibleCommands(cmd) {
			all = append(all, list(sub)...)
		}
		return all
	}
	for _, cmd := range list(root) {
		p := newPage(pageName(cmd), "1", cmd.Short, day)
		p.command(cmd, known)
		pages = append(pages, p)
	}
	pages = append(pages, decoderPage(day))
	for _, s := range manSchemas {
		p := newPage(s.name, "5", s.what, day)
		p.schema(s.schema)
		p.seeAlso(s.see, known)
		pages = append(pages, p)
	}
	return pages
}

// pageName is the name of a command's page, such as ensemble-config-show.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// newPage returns a page with its title line and the section NAME.
func newPage(name, section, what string, day time.Time) *manPage {
	p := &manPage{name: name, section: section, day: day}
	fmt.Fprintf(&p.text, ".TH %s %s %s \"ensemble %s\" \"Manual of ensemble\"\n", roff(strings.ToUpper(name)), section, day.Format(time.DateOnly), roff(version.String()))
	p.heading("NAME")
	fmt.Fprintf(&p.text, "%s \\- %s\n", roff(name), roff(what))
	return p
}

// command writes the sections of a command: those that cobra generates, and the subcommands,
// exit codes, environment variables and references that it omits.
func (p *manPage) command(cmd *cobra.Command, known map[string]string) {
	var made bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Date: &p.day}, &made); err != nil {
		panic(err) // writes to a buffer do not fail
	}
	_, body, _ := strings.Cut(made.String(), ".SH SYNOPSIS")
	body, _, _ = strings.Cut(body, ".SH SEE ALSO")
	body, _, _ = strings.Cut(body, ".SH HISTORY")
	p.text.WriteString(".SH SYNOPSIS" + strings.TrimRight(manOption.ReplaceAllString(body, ".TP\n$1\n"), "\n") + "\n")
	if subs := visibleCommands(cmd); len(subs) > 0 {
		p.heading("COMMANDS")
		for _, c := range subs {
			p.item("\\fB"+roff(pageName(c))+"\\fR(1)", c.Short)
		}
	}
	p.heading("EXIT STATUS")
	codes := strings.Fields(cmd.Annotations[codesAnnotation])
	for _, c := range exit.All {
		if len(codes) == 0 || slices.Contains(codes, fmt.Sprint(int(c.Code))) {
			p.item(fmt.Sprintf("\\fB%d\\fR", c.Code), c.Meaning)
		}
	}
	if cmd.HasParent() {
		p.seeAlso(cmd.Parent().CommandPath()+", "+cmd.Annotations[seeAnnotation], known)
		return
	}
	p.heading("ENVIRONMENT")
	for _, v := range environment {
		p.item("\\fB"+roff(v.name)+"\\fR", v.meaning)
	}
	p.seeAlso(manSchemas[0].name+"(5), "+manSchemas[1].name+"(5), "+cmd.Annotations[seeAnnotation], known)
}

// manOption matches the start of an option in cobra's output: a paragraph, or the first line of
// a section, with the description after a tab.
var manOption = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*)\n\t`)

// environment lists the environment variables of the program itself, without those of the
// libraries.
var environment = []struct{ name, meaning string }{
	{"ENSEMBLE_KEY", "value of a configuration key, such as ENSEMBLE_TRAIN_BATCH_SIZE for train.batch_size; overrides files and is overridden by flags"},
	{"ENSEMBLE_DECODE", "path of the decoding program, if it is neither in the directory of ensemble nor on PATH"},
	{"ENSEMBLE_CUDA_PATH", "directories of the CUDA libraries, separated by colons"},
	{"ENSEMBLE_COORDINATOR", "HOST:PORT of rank 0 of a job over TCP; ENSEMBLE_RANKS is the number of its processes, ENSEMBLE_RANK that of this one from 0, ENSEMBLE_JOB a text that they share"},
	{"XDG_CACHE_HOME", "directory of measured kernel times, instead of ~/.cache"},
	{"NO_COLOR", "no colours on terminals, if it is not empty"},
	{"SOURCE_DATE_EPOCH", "creation time of products, in seconds since 1970"},
}

// decoderPage is the page of the decoding program, which has no help of its own.
func decoderPage(day time.Time) *manPage {
	p := newPage("ensemble-decode", "1", "decode and encode GRIB and NetCDF for ensemble", day)
	p.heading("DESCRIPTION")
	p.paragraph("The child process in which ensemble(1) reads and writes GRIB and NetCDF, so that a damaged file\n" +
		"ends the child and not the run. It has a binary protocol on standard input and output and\n" +
		"cannot be used interactively. It alone links ecCodes, netCDF, HDF5, libaec and libdeflate;\n" +
		"`ensemble doctor` lists their versions.")
	p.heading("ENVIRONMENT")
	p.item("\\fBENSEMBLE_DECODE\\fR", "path from which ensemble starts the program")
	p.heading("SEE ALSO")
	p.text.WriteString("\\fBensemble\\fR(1), \\fBensemble-doctor\\fR(1)\n")
	return p
}

// schema writes the explanation of every key, as `ensemble config explain` prints it.
func (p *manPage) schema(s *config.Schema) {
	p.heading("DESCRIPTION")
	p.paragraph("A YAML file. Unknown keys, duplicate keys and values out of range are errors, reported together.\n" +
		"Later files, environment variables and --set override single keys.")
	p.heading("KEYS")
	var all strings.Builder
	if err := s.Explain(&all, ""); err != nil {
		panic(err) // only an unknown path is an error
	}
	for block := range strings.SplitSeq(strings.TrimRight(all.String(), "\n"), "\n\n") {
		key, rest, _ := strings.Cut(block, "\n")
		fmt.Fprintf(&p.text, ".TP\n\\fB%s\\fR\n", roff(key))
		for i, line := range joinRows(rest) {
			if i > 0 {
				p.text.WriteString(".br\n")
			}
			p.text.WriteString(roff(line) + "\n")
		}
	}
}

// joinRows joins the wrapped lines of a key's explanation and omits the name of its first row,
// "meaning".
func joinRows(text string) []string {
	var rows []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "   ") && len(rows) > 0 {
			rows[len(rows)-1] += " " + strings.TrimSpace(line)
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "meaning" {
			value = name + ": " + strings.TrimSpace(value)
		}
		rows = append(rows, strings.TrimSpace(value))
	}
	return rows
}

// paragraph writes a paragraph whose lines the formatter fills.
func (p *manPage) paragraph(text string) { p.text.WriteString(roff(text) + "\n") }

// heading begins a section.
func (p *manPage) heading(title string) { fmt.Fprintf(&p.text, ".SH %s\n", title) }

// item writes an item of a list: a formatted tag and its description.
func (p *manPage) item(tag, text string) {
	fmt.Fprintf(&p.text, ".TP\n%s\n%s\n", tag, roff(text))
}

// seeAlso writes references: commands become the names of their pages, other words stay.
func (p *manPage) seeAlso(see string, known map[string]string) {
	var refs []string
	for word := range strings.SplitSeq(see, ", ") {
		if word == "" {
			continue
		}
		line := strings.Replace(word, "ensemble help ", "ensemble ", 1)
		ref, ok := known[line]
		if !ok {
			ref = word
		}
		if name, section, ok := strings.Cut(ref, "("); ok {
			ref = "\\fB" + roff(name) + "\\fR(" + section
		} else {
			ref = roff(ref)
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if len(refs) > 0 {
		p.heading("SEE ALSO")
		p.text.WriteString(strings.Join(refs, ",\n") + "\n")
	}
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`, "'", `\(aq`)

// roff escapes text so that it is printed literally, a leading dot too.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
