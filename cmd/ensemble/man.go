package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func manCommand(a *app) *cobra.Command {
	var dir, date string
	cmd := &cobra.Command{
		Use:   "man --out DIR",
		Short: "Write the manual pages",
		Long: "Write a manual page of every command, from what its --help says, and of the\n" +
			"configuration files. Packages install them; from a build by hand, put them\n" +
			"where man looks.",
		Example: "  ensemble man --out ~/.local/share/man\n" +
			"  man ensemble-train\n" +
			"  ensemble man --out build/man --date 2026-01-01",
		Annotations: notes("ensemble help, ensemble completion", exit.CannotWrite, exit.IO),
		Args:        noArgs,
	}
	cmd.Flags().StringVarP(&dir, "out", "o", "", "`DIR` for the folders man1 and man5")
	cmd.Flags().StringVar(&date, "date", "", "`DATE` that the pages state (default today)")
	cmd.RunE = a.do(func(context.Context, []string) (result, error) {
		if err := required(cmd, "out"); err != nil {
			return result{}, err
		}
		day := time.Now().UTC()
		if date != "" {
			var err error
			if day, err = time.Parse(time.DateOnly, date); err != nil {
				return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no date", date), At: "--date", Fix: "write it like 2026-01-31", Err: err}
			}
		}
		var files []string
		for _, p := range manual(a.root, day) {
			path := filepath.Join(dir, "man"+p.section, p.name+"."+p.section)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return result{}, exit.Create(path, err)
			}
			if err := atomicfile.WriteFile(path, []byte(p.text.String())); err != nil {
				return result{}, exit.Create(path, err)
			}
			files = append(files, path)
		}
		return result{outputs: files, text: func(w io.Writer) error { return printLines(w, files) }}, nil
	})
	return cmd
}

// manPage is one page in the macros of man(7), which groff and mandoc both read.
type manPage struct {
	name, section string
	text          strings.Builder
}

// schemas are the files that have a page each, and what reads them.
var schemas = []struct {
	name, what, see string
	schema          *config.Schema
}{
	{"ensemble-train.yaml", "configuration of a training", "ensemble train, ensemble config explain", config.TrainSchema},
	{"ensemble-predict.yaml", "configuration of predictions", "ensemble predict, ensemble config explain", config.PredictSchema},
}

// manual makes the pages: of the program, its commands, the child and the files.
func manual(root *cobra.Command, day time.Time) []*manPage {
	known := map[string]string{} // command line -> reference
	var pages []*manPage
	var list func(*cobra.Command) []*cobra.Command
	list = func(cmd *cobra.Command) []*cobra.Command {
		known[cmd.CommandPath()] = pageName(cmd) + "(1)"
		all := []*cobra.Command{cmd}
		for _, sub := range available(cmd) {
			all = append(all, list(sub)...)
		}
		return all
	}
	for _, cmd := range list(root) {
		p := newPage(pageName(cmd), "1", cmd.Short, day)
		p.command(cmd, known)
		pages = append(pages, p)
	}
	pages = append(pages, childPage(day))
	for _, s := range schemas {
		p := newPage(s.name, "5", s.what, day)
		p.schema(s.schema)
		p.seeAlso(s.see, known)
		pages = append(pages, p)
	}
	return pages
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func newPage(name, section, what string, day time.Time) *manPage {
	p := &manPage{name: name, section: section}
	fmt.Fprintf(&p.text, ".TH %s %s %s \"ensemble %s\" \"Manual of ensemble\"\n", roff(strings.ToUpper(name)), section, day.Format(time.DateOnly), roff(version.String()))
	p.head("NAME")
	fmt.Fprintf(&p.text, "%s \\- %s\n", roff(name), roff(what))
	return p
}

// command writes what the help of a command says.
func (p *manPage) command(cmd *cobra.Command, known map[string]string) {
	p.head("SYNOPSIS")
	fmt.Fprintf(&p.text, "\\fB%s\\fR%s\n", roff(cmd.CommandPath()), roff(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	p.head("DESCRIPTION")
	p.prose(long)
	if subs := available(cmd); len(subs) > 0 {
		p.head("COMMANDS")
		for _, c := range subs {
			p.tagged("\\fB"+roff(pageName(c))+"\\fR(1)", c.Short)
		}
	}
	local := cmd.Flags()
	if cmd.HasParent() {
		local = cmd.LocalNonPersistentFlags()
	}
	p.flags("OPTIONS", local)
	if cmd.HasParent() {
		p.flags("COMMON OPTIONS", cmd.InheritedFlags())
	}
	p.head("EXIT STATUS")
	codes := strings.Fields(cmd.Annotations[codesNote])
	for _, c := range exit.All {
		if len(codes) == 0 || slices.Contains(codes, fmt.Sprint(int(c.Code))) {
			p.tagged(fmt.Sprintf("\\fB%d\\fR", c.Code), c.Meaning)
		}
	}
	if !cmd.HasParent() {
		p.head("ENVIRONMENT")
		for _, v := range variables {
			p.tagged("\\fB"+roff(v.name)+"\\fR", v.meaning)
		}
	}
	if cmd.Example != "" {
		p.head("EXAMPLES")
		p.literal(strings.Split(strings.TrimRight(cmd.Example, "\n"), "\n"))
	}
	see := cmd.Annotations[seeNote]
	if cmd.HasParent() {
		see = strings.Join(slices.DeleteFunc([]string{cmd.Parent().CommandPath(), see}, func(s string) bool { return s == "" }), ", ")
	} else {
		for _, s := range schemas {
			see += ", " + s.name + "(5)"
		}
		see = strings.TrimPrefix(see, ", ")
	}
	p.seeAlso(see, known)
}

// variables are the environment that the program itself reads, beside that of the
// libraries.
var variables = []struct{ name, meaning string }{
	{"ENSEMBLE_KEY", "a key of a configuration file, such as ENSEMBLE_TRAIN_BATCH_SIZE for train.batch_size; it counts more than files and less than flags"},
	{"ENSEMBLE_DECODE", "the decoding program, where it lies neither beside ensemble nor on PATH"},
	{"ENSEMBLE_CUDA_PATH", "folders with the libraries of CUDA, separated by colons"},
	{"XDG_CACHE_HOME", "where measured times of kernels are kept, in place of ~/.cache"},
	{"SOURCE_DATE_EPOCH", "the time, in seconds since 1970, that products state as that of their making"},
}

// childPage is about the second program of an installation, which has no help.
func childPage(day time.Time) *manPage {
	p := newPage("ensemble-decode", "1", "decode and encode GRIB and NetCDF for ensemble", day)
	p.head("DESCRIPTION")
	p.prose("The child process in which ensemble(1) reads and writes foreign formats, so that a damaged file\n" +
		"ends the child and not a run. It speaks a protocol of its own on standard input and output,\n" +
		"and is of no use when started by hand. It alone links ecCodes, netCDF, HDF5, libaec and\n" +
		"libdeflate; `ensemble doctor` says which versions.")
	p.head("ENVIRONMENT")
	p.tagged("\\fBENSEMBLE_DECODE\\fR", "the path at which ensemble starts it")
	p.head("SEE ALSO")
	p.text.WriteString("\\fBensemble\\fR(1), \\fBensemble-doctor\\fR(1)\n")
	return p
}

// schema writes what `config explain` says of every key.
func (p *manPage) schema(s *config.Schema) {
	p.head("DESCRIPTION")
	p.prose("A file in YAML. Unknown keys, keys given twice and values out of range are refused, all at once.\n" +
		"Files that are given later, the environment and --set replace single keys.")
	p.head("KEYS")
	var all strings.Builder
	if err := s.Explain(&all, ""); err != nil {
		panic(err) // only a path that is not there is refused
	}
	for block := range strings.SplitSeq(strings.TrimRight(all.String(), "\n"), "\n\n") {
		key, rest, _ := strings.Cut(block, "\n")
		fmt.Fprintf(&p.text, ".TP\n\\fB%s\\fR\n", roff(key))
		for i, line := range explained(rest) {
			if i > 0 {
				p.text.WriteString(".br\n")
			}
			p.text.WriteString(roff(line) + "\n")
		}
	}
}

// explained joins the wrapped lines of a key's explanation and leaves out the name of
// its first row, "meaning".
func explained(text string) []string {
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

func (p *manPage) head(title string) { fmt.Fprintf(&p.text, ".SH %s\n", title) }

// prose writes lines that are filled anew; indented ones stay as they are.
func (p *manPage) prose(text string) {
	var plain []string
	flush := func() {
		p.literal(plain)
		plain = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "  "):
			plain = append(plain, line)
		case line == "":
			flush()
			p.text.WriteString(".PP\n")
		default:
			flush()
			p.text.WriteString(roff(line) + "\n")
		}
	}
	flush()
}

// literal writes lines as they stand.
func (p *manPage) literal(lines []string) {
	if len(lines) == 0 {
		return
	}
	if !strings.HasSuffix(p.text.String(), ".SH EXAMPLES\n") { // a head opens a paragraph
		p.text.WriteString(".PP\n")
	}
	p.text.WriteString(".nf\n")
	for _, l := range lines {
		p.text.WriteString(roff(strings.TrimPrefix(l, "  ")) + "\n")
	}
	p.text.WriteString(".fi\n")
}

// tagged writes a word that is formatted already and what it means.
func (p *manPage) tagged(tag, text string) {
	fmt.Fprintf(&p.text, ".TP\n%s\n%s\n", tag, roff(text))
}

// flags writes the flags with what they take and their defaults.
func (p *manPage) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	p.head(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		takes, usage := pflag.UnquoteUsage(f)
		tag := "\\fB" + roff("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			tag = "\\fB" + roff("-"+f.Shorthand) + "\\fR, " + tag
		}
		if takes != "" {
			tag += " \\fI" + roff(takes) + "\\fR"
		}
		if !slices.Contains([]string{"", "0", "false", "[]", "0s"}, f.DefValue) && !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
		p.tagged(tag, usage)
	})
}

// seeAlso writes references: commands to their pages, other words as they are.
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
		p.head("SEE ALSO")
		p.text.WriteString(strings.Join(refs, ",\n") + "\n")
	}
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`, "'", `\(aq`)

// roff escapes text so that it is printed as it stands. No line of it is a request.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
