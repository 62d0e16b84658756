package experiment

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// BundleOptions selects the results of an experiment to archive, and who publishes them how.
type BundleOptions struct {
	Results   string   // output directory of an experiment
	Out       string   // archive to write
	Licence   string   // file with the licence of the results
	LicenceID string   // its SPDX identifier, for CITATION.cff; "": none
	Authors   []string // "Family name, given names"
}

// Bundle is a written archive.
type Bundle struct {
	Path   string          `json:"path"`
	SHA256 string          `json:"sha256"`
	Size   int64           `json:"size"`
	Files  []manifest.File `json:"files"` // in the archive
}

// entry is one file of an archive.
type entry struct {
	name string
	text []byte
}

// runFiles are the files of a run directory that an archive has.
var runFiles = []string{trained.ScoresFile, trained.ScoresTable, trained.DatesTable}

// WriteBundle archives the results of an experiment for a repository that assigns a DOI: record, configurations,
// scores, figures, licence, CITATION.cff and digests. Weights and data are not in it, but their digests
// are. The same results give the same bytes.
//
// Errors: exit 64 without licence or author; 65 for a record that failed, of a version that nobody else has,
// or with files that changed since; 66 without record.
func WriteBundle(o BundleOptions) (*Bundle, error) {
	r, err := record.Read(o.Results)
	if err != nil {
		return nil, err
	}
	licence, err := o.check(r)
	if err != nil {
		return nil, err
	}
	all := []entry{{"LICENSE", licence}, {"CITATION.cff", []byte(o.citation(r))}}
	for _, part := range []func(*record.Record) ([]entry, error){o.sources, o.runs, o.tables, o.figures} {
		more, err := part(r)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	readme, err := readme(r)
	if err != nil {
		return nil, err
	}
	all = append(all, entry{"README.md", readme})
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	b := &Bundle{Path: o.Out}
	for _, e := range all {
		b.Files = append(b.Files, manifest.File{Path: e.name, Size: int64(len(e.text)), SHA256: record.Digest(string(e.text))})
	}
	all = append(all, entry{"SHA256SUMS", manifest.Sums(b.Files)})
	if err := exit.CreateError(o.Out, atomicfile.Write(o.Out, func(w io.Writer) error { return writeZip(w, all, r.End) })); err != nil {
		return nil, err
	}
	sum, err := manifest.SumFile(o.Out)
	if err != nil {
		return nil, exit.ReadError(o.Out, err)
	}
	b.SHA256, b.Size = sum.SHA256, sum.Size
	return b, nil
}

// check refuses what cannot be published, and returns the text of the licence.
func (o *BundleOptions) check(r *record.Record) (licence []byte, err error) {
	at := filepath.Join(o.Results, record.File)
	switch {
	case o.Licence == "":
		return nil, &exit.Error{Code: exit.Usage, What: "the bundle has no licence", At: "--licence", Why: "without one nobody may use the results", Fix: "give the file of a licence, such as --licence LICENSE --licence-id CC-BY-4.0"}
	case len(o.Authors) == 0:
		return nil, &exit.Error{Code: exit.Usage, What: "the bundle has no author", At: "--author", Why: "CITATION.cff and a DOI need at least one", Fix: `give --author "Family name, given names" for each`}
	case !version.IsPublished(r.Machine.Program):
		return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the record was made by version %q of the program, which nobody else has", r.Machine.Program), At: at,
			Why: "its files had changes, or its revision is unknown", Fix: "commit the changes, build the program, and run the experiment again in another directory"}
	case r.Status != record.Pass:
		return nil, &exit.Error{Code: exit.BadData, What: "the experiment failed a check", At: at, Why: "a bundle is of results that its experiment.yaml expects", Fix: "correct the expected scores, or the experiment, and run it again"}
	}
	for _, a := range o.Authors {
		family, given, ok := strings.Cut(a, ",")
		if !ok || strings.TrimSpace(family) == "" || strings.TrimSpace(given) == "" {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid author %q", a), At: "--author", Fix: `write "Family name, given names"`}
		}
	}
	if licence, err = filesystem.ReadFile(o.Licence); err != nil {
		return nil, exit.ReadError(o.Licence, err)
	}
	if len(bytes.TrimSpace(licence)) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "the licence is empty", At: o.Licence, Why: "without one nobody may use the results", Fix: "give the file of a licence"}
	}
	return licence, nil
}

// citation returns the text of CITATION.cff.
//
// Source: Druskat et al. 2021, Citation File Format 1.2.0, doi:10.5281/zenodo.5171937.
func (o *BundleOptions) citation(r *record.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cff-version: 1.2.0\nmessage: Please cite these results as below.\ntype: dataset\ntitle: %s\nauthors:\n", config.Quote(r.Title))
	for _, a := range o.Authors {
		family, given, _ := strings.Cut(a, ",")
		fmt.Fprintf(&b, "  - family-names: %s\n    given-names: %s\n", config.Quote(strings.TrimSpace(family)), config.Quote(strings.TrimSpace(given)))
	}
	fmt.Fprintf(&b, "version: %q\ndate-released: %q\n", r.Machine.Program, r.End.Format(time.DateOnly))
	if o.LicenceID != "" {
		fmt.Fprintf(&b, "license: %s\n", config.Quote(o.LicenceID))
	}
	return b.String()
}

// sources returns the record and the files that define the experiment.
func (o *BundleOptions) sources(r *record.Record) (out []entry, err error) {
	path := filepath.Join(o.Results, record.File)
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	out = append(out, entry{record.File, text})
	for _, s := range r.Sources {
		out = append(out, entry{"experiment/" + s.Name, []byte(s.Text)})
	}
	return out, nil
}

// runs returns the configuration and the scores of each training.
//
// Errors: exit 65 for files that differ from the record, 66 for missing ones.
func (o *BundleOptions) runs(r *record.Record) (out []entry, err error) {
	for i := range r.Runs {
		run := &r.Runs[i]
		dir := run.Dir()
		out = append(out, entry{"runs/" + dir + "/config.yaml", []byte(run.Config)})
		for _, name := range runFiles {
			at := slices.IndexFunc(run.Outputs, func(f manifest.File) bool { return f.Path == name })
			if at < 0 {
				continue
			}
			text, err := o.read(filepath.Join(filepath.FromSlash(dir), name), run.Outputs[at].SHA256)
			if err != nil {
				return nil, err
			}
			out = append(out, entry{"runs/" + dir + "/" + name, text})
		}
	}
	return out, nil
}

// tables returns the tables and pages of all trainings together: of a study, and of an oracle.
//
// Errors: as runs.
func (o *BundleOptions) tables(r *record.Record) (out []entry, err error) {
	for _, f := range r.Outputs {
		text, err := o.read(filepath.FromSlash(f.Path), f.SHA256)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{"tables/" + f.Path, text})
	}
	return out, nil
}

// read reads a file of the results and compares it with its recorded checksum.
func (o *BundleOptions) read(name, sum string) ([]byte, error) {
	path := filepath.Join(o.Results, name)
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	if own := record.Digest(string(text)); own != sum {
		return nil, &exit.Error{Code: exit.BadData, What: "the file is not that of the record", At: path, Why: "SHA-256 " + own + ", recorded " + sum, Fix: "run the experiment again"}
	}
	return text, nil
}

// figures returns the page of each first seed, and of the test periods.
func (o *BundleOptions) figures(r *record.Record) (out []entry, err error) {
	tmp, err := filesystem.MkdirTemp("", "bundle-")
	if err != nil {
		return nil, err
	}
	defer filesystem.RemoveAll(tmp)
	drawn := map[[2]string]bool{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if k := [2]string{run.Variant, run.Origin}; !drawn[k] {
			drawn[k] = true
			dir := filepath.FromSlash(run.Dir())
			if err := reports.WritePublic(filepath.Join(o.Results, dir), filepath.Join(tmp, dir)); err != nil {
				return nil, err
			}
		}
	}
	if r.Periods != nil {
		if err := savePeriods(tmp, r); err != nil {
			return nil, err
		}
	}
	err = filepath.WalkDir(tmp, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := filesystem.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tmp, path)
		out = append(out, entry{"figures/" + filepath.ToSlash(name), text})
		return err
	})
	return out, err
}

// readme describes the contents of an archive and how to reproduce them.
func readme(r *record.Record) ([]byte, error) {
	var b bytes.Buffer
	tables := ""
	if r.Outputs != nil {
		tables = "| tables/ | tables and page of all trainings together |\n"
	}
	fmt.Fprintf(&b, `# %s

Results of the experiment %s, made by version %s of the program ensemble on %s.

| file | content |
|---|---|
| record.json | settings, machine, digests of inputs, weights and results, scores |
| experiment/ | the files that define the experiment |
| runs/ | configuration and scores of each training |
%s| figures/ | pages with scores, maps and losses, of the first seed |
| SHA256SUMS | digests, for `+"`sha256sum -c`"+` |

Its input, %s, is not in this archive; record.json has the digests. To repeat it:

    ensemble experiment reproduce record.json --data DIR

`, r.Title, r.Experiment, r.Machine.Program, r.End.Format(time.DateOnly), tables, humanise.Count(len(r.Data.Files), "file"))
	checks := (&Result{Record: r}).Sections()
	err := checks[:len(checks)-1].WriteMarkdown(&b) // without the paths of outputs
	return b.Bytes(), err
}

// writeZip writes entries as an archive whose bytes depend on them and on a time only.
func writeZip(w io.Writer, all []entry, at time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range all {
		f, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at})
		if err != nil {
			return err
		}
		if _, err := f.Write(e.text); err != nil {
			return err
		}
	}
	return z.Close()
}

// Sections is the content of the archive by folder, and its size and digest.
func (b *Bundle) Sections() answer.Sections {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("content"), answer.NumberColumns("", "files", "bytes"))}
	var last string
	for _, f := range b.Files { // sorted by name
		top, _, inFolder := strings.Cut(f.Path, "/")
		if inFolder {
			top += "/"
		}
		if top != last {
			s.Rows = append(s.Rows, []any{top, 0, int64(0)})
			last = top
		}
		row := s.Rows[len(s.Rows)-1]
		row[1], row[2] = row[1].(int)+1, row[2].(int64)+f.Size
	}
	return answer.Sections{s, {Text: []string{fmt.Sprintf("%s, %d bytes, SHA-256 %s", b.Path, b.Size, b.SHA256)}}}
}
