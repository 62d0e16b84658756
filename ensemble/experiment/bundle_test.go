package experiment

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// unzip reads an archive.
func unzip(t *testing.T, path string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(text)
	}
	return out
}

// A bundle has all that a repository needs, with digests, without paths of this machine; the same results give the
// same bytes. What cannot be published is refused.
func TestBundle(t *testing.T) {
	results := t.TempDir()
	run := Options{Experiment: recorded(t), Dir: results, Version: "v1.2.3"}
	if _, err := Run(context.Background(), run); err != nil {
		t.Fatal(err)
	}
	licence := filepath.Join(t.TempDir(), "LICENSE")
	if err := os.WriteFile(licence, []byte("You may.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := BundleOptions{Results: results, Out: filepath.Join(t.TempDir(), "a.zip"), Licence: licence, LicenceID: "CC-BY-4.0", Authors: []string{"Doe, Jane", "O'Neill, Ann: B."}}
	b, err := WriteBundle(o)
	if err != nil {
		t.Fatal(err)
	}
	files := unzip(t, o.Out)
	for _, name := range []string{"README.md", "LICENSE", "CITATION.cff", "record.json", "experiment/experiment.yaml", "experiment/train.yaml", "runs/base/seed-3/config.yaml",
		"runs/base/seed-3/scores.json", "runs/base/seed-3/scores.parquet", "runs/base/seed-3/dates.parquet", "figures/base/seed-3/index.html", "SHA256SUMS"} {
		if files[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	if len(files) != len(b.Files)+1 {
		t.Errorf("%d files, listed %d", len(files), len(b.Files))
	}
	for line := range strings.Lines(files["SHA256SUMS"]) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if fmt.Sprintf("%x", sha256.Sum256([]byte(files[name]))) != sum {
			t.Errorf("digest of %q", name)
		}
	}
	host, _ := os.Hostname() // bundles do not contain the host name
	for name, text := range files {
		if strings.HasPrefix(name, "experiment/") || name == "record.json" { // the test wrote a path into its experiment.yaml
			continue
		}
		for _, secret := range []string{results, filepath.Dir(demotest.Files(t).GRIB2[0]), ">" + host + "<", `"` + host + `"`} { // the host in a table or in JSON
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
	}
	for name, want := range map[string]string{"CITATION.cff": "    given-names: 'Ann: B.'\nversion: \"v1.2.3\"\n", "README.md": `crps\_gauss of network`} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
	var shown strings.Builder
	if err := b.Sections().WriteText(&shown); err != nil || !strings.Contains(shown.String(), "runs/             4") || !strings.Contains(shown.String(), b.SHA256) {
		t.Errorf("%v\n%s", err, shown.String())
	}
	first, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	o.Out = filepath.Join(t.TempDir(), "b.zip")
	if _, err := WriteBundle(o); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(o.Out); err != nil || !bytes.Equal(first, second) {
		t.Errorf("other bytes, %v", err)
	}
	bundleRefuses(t, o)
}

// bundleRefuses checks that a bundle is refused without licence or author, of records that nobody can repeat, and of
// files that changed.
func bundleRefuses(t *testing.T, good BundleOptions) {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "LICENSE")
	if err := os.WriteFile(empty, []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rewrite := func(change func(r *record.Record)) func(*BundleOptions) {
		return func(o *BundleOptions) {
			r, err := record.Read(o.Results)
			if err != nil {
				t.Fatal(err)
			}
			change(r)
			if err := r.Write(filepath.Join(o.Results, record.File)); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := filepath.Join(experimentfile.BaseVariant, "seed-3", "scores.json")
	for _, c := range []struct {
		name   string
		change func(o *BundleOptions)
		code   exit.Code
		want   string
	}{
		{"no licence", func(o *BundleOptions) { o.Licence = "" }, exit.Usage, "the bundle has no licence"},
		{"a licence that is missing", func(o *BundleOptions) { o.Licence += "x" }, exit.NotYet, "LICENSEx"},
		{"an empty licence", func(o *BundleOptions) { o.Licence = empty }, exit.Usage, "the licence is empty"},
		{"no author", func(o *BundleOptions) { o.Authors = nil }, exit.Usage, "no author"},
		{"half an author", func(o *BundleOptions) { o.Authors = []string{"Jane"} }, exit.Usage, `invalid author "Jane"`},
		{"no record", func(o *BundleOptions) { o.Results = t.TempDir() }, exit.NotYet, "record.json"},
		{"a dirty tree", rewrite(func(r *record.Record) { r.Machine.Program = "v1.2.3-dirty-0123456789ab" }), exit.BadData, "commit the changes"},
		{"no version", rewrite(func(r *record.Record) { r.Machine.Program = "" }), exit.BadData, "which nobody else has"},
		{"a failed check", rewrite(func(r *record.Record) { r.Status = record.Fail }), exit.BadData, "failed a check"},
		{"another folder", rewrite(func(r *record.Record) { r.Runs[0].Variant = "../../x" }), exit.BadData, "outside its experiment"},
		{"other scores", func(o *BundleOptions) {
			if err := os.WriteFile(filepath.Join(o.Results, at), []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, exit.BadData, "not that of the record"},
		{"lost scores", func(o *BundleOptions) {
			if err := os.Remove(filepath.Join(o.Results, at)); err != nil {
				t.Fatal(err)
			}
		}, exit.NotYet, "scores.json"},
	} {
		o := good
		o.Out, o.Results = filepath.Join(t.TempDir(), "c.zip"), t.TempDir()
		if err := os.CopyFS(o.Results, os.DirFS(good.Results)); err != nil {
			t.Fatal(err)
		}
		c.change(&o)
		if _, err := WriteBundle(o); exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want code %d and %q", c.name, err, c.code, c.want)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: an archive was written", c.name)
		}
	}
}
