package product_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// both publishes in both formats.
var both = product.Publication{Formats: []product.Format{product.NetCDF, product.GRIB2}, ConfigChecksum: "sha256:c0"}

func publish(t *testing.T, root string, p *product.Product, pub product.Publication) (*product.Manifest, bool) {
	t.Helper()
	m, already, err := product.Publish(context.Background(), encoder(t), root, p, pub)
	if err != nil {
		t.Fatal(err)
	}
	return m, already
}

// files reads a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

func TestPublish(t *testing.T) {
	root := filepath.Join(t.TempDir(), "products")
	p := testProduct(globe(ensemble.SourceOrder{}))
	second := p.Fields[0]
	second.Lead = ensemble.Lead(24 * time.Hour)
	p.Fields = append(p.Fields, second)
	pub := both
	pub.ExpectedMembers, pub.MissingMembers = 6, []product.MissingMember{{Member: 5, Reason: "no file"}}
	m, already := publish(t, root, p, pub)
	if already {
		t.Error("nothing was there before")
	}
	dir := filepath.Join(root, "2026010100")
	want := []string{"2026010100_024h.nc", "2026010100_024h_t_mean.grib2", "2026010100_048h.nc", "2026010100_048h_2t_mean.grib2", "2026010100_048h_2t_spread.grib2",
		"2026010100_048h_gh_mean.grib2", "2026010100_048h_gh_spread.grib2", "2026010100_048h_t_mean.grib2", "2026010100_048h_t_spread.grib2"}
	var got []string
	for _, f := range m.Outputs {
		got = append(got, f.Path)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("outputs %v, want %v", got, want)
	}
	if n := len(files(t, dir)); n != len(want)+2 {
		t.Errorf("%d files in the folder, want %d and two records", n, len(want))
	}
	if left, _ := os.ReadDir(root); len(left) != 1 {
		t.Errorf("beside the cycle: %v", left)
	}
	cmd := tool(t, "sha256sum")
	t.Chdir(dir)
	if out := run(t, cmd, "-c", "SHA256SUMS"); strings.Count(out, ": OK") != len(want) {
		t.Errorf("sha256sum -c: %s", out)
	}
	var read map[string]any
	if err := json.Unmarshal([]byte(files(t, dir)["manifest.json"]), &read); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"status": "degraded", "init": "2026-01-01T00:00:00Z", "members_expected": 6.0, "control_policy": "include",
		"members_used": []any{0.0, 1.0, 2.0, 3.0, 4.0}, "model_checksum": "sha256:00ff", "config_checksum": "sha256:c0", "version": "0.1.0",
		"members_missing": []any{map[string]any{"member": 5.0, "reason": "no file"}}, "warnings": []any{}} {
		if !reflect.DeepEqual(read[key], want) {
			t.Errorf("manifest %s = %v, want %v", key, read[key], want)
		}
	}
	if again, err := product.ReadManifest(dir); err != nil || !reflect.DeepEqual(again, m) {
		t.Errorf("manifest read back: %v\n%+v\n%+v", err, again, m)
	}
}

// TestPublishAtStations: beside the fields of the grid, those of stations are published at each lead, as NetCDF and as a table.
func TestPublishAtStations(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	places := []ensemble.Station{{ID: "1", Lat: 50, Lon: 10}, {ID: "2", Lat: -30, Lon: 20}}
	q := *p
	q.Grid, q.Locations, q.Fields = ensemble.StationGrid(places), places, nil
	for _, lead := range []ensemble.Lead{testLead / 2, testLead} {
		q.Fields = append(q.Fields, product.Field{Variable: "t", Level: ensemble.PressureLevel(850), Lead: lead, Kind: product.Mean, Values: []float32{1, 2}})
	}
	p.AtStations = &q
	root := filepath.Join(t.TempDir(), "products")
	m, _ := publish(t, root, p, product.Publication{Formats: []product.Format{product.NetCDF}})
	var got []string
	for _, f := range m.Outputs {
		got = append(got, f.Path)
	}
	want := []string{"2026010100_024h_stations.csv", "2026010100_024h_stations.nc", "2026010100_048h.nc", "2026010100_048h_stations.csv", "2026010100_048h_stations.nc"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("outputs %v, want %v", got, want)
	}
	if err := m.Verify(filepath.Join(root, "2026010100")); err != nil {
		t.Error(err)
	}
}

// The same product gives the same bytes, at another time and with its fields in
// another order; with SOURCE_DATE_EPOCH also the same manifest.
func TestPublishIsReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	p := testProduct(globe(ensemble.SourceOrder{}))
	a, b := t.TempDir(), t.TempDir()
	publish(t, a, p, both)
	time.Sleep(1100 * time.Millisecond) // HDF5 and the manifest have a resolution of seconds
	q := *p
	q.Fields = nil
	for i := range p.Fields {
		q.Fields = append(q.Fields, p.Fields[len(p.Fields)-1-i])
	}
	enc, err := decode.NewPool(decode.Options{Program: os.Getenv(decode.ProgramEnv), Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	if _, _, err := product.Publish(context.Background(), enc, b, &q, both); err != nil {
		t.Fatal(err)
	}
	fa, fb := files(t, filepath.Join(a, "2026010100")), files(t, filepath.Join(b, "2026010100"))
	if len(fa) != len(fb) {
		t.Errorf("%d and %d files", len(fa), len(fb))
	}
	for name := range fa {
		if fa[name] != fb[name] {
			t.Errorf("%s differs", name)
		}
	}
	if !strings.Contains(fa["2026010100_048h.nc"], "2023-11-14T22:13:20Z ensemble 0.1.0") {
		t.Error("the history has not the time of SOURCE_DATE_EPOCH")
	}
}

// The history has the time of processing, or that of SOURCE_DATE_EPOCH.
func TestHistory(t *testing.T) {
	p := *testProduct(globe(ensemble.SourceOrder{}))
	p.Created = time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, c := range []struct{ epoch, want string }{{"", "2031-02-03T04:05:06Z ensemble"}, {"1700000000", "2023-11-14T22:13:20Z ensemble"}} {
		t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
		dir := t.TempDir()
		publish(t, dir, &p, both)
		if text := files(t, filepath.Join(dir, "2026010100"))["2026010100_048h.nc"]; !strings.Contains(text, c.want) {
			t.Errorf("SOURCE_DATE_EPOCH=%q: the history has not %q", c.epoch, c.want)
		}
	}
}

// Whether published products stay, are replaced, or cause an error.
func TestPublishAgain(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	other := *p
	other.ModelChecksum = "sha256:other"
	for _, c := range []struct {
		name    string
		p       *product.Product
		policy  product.Overwrite
		damage  func(dir string) error
		already bool
		code    exit.Code
	}{
		{"the same", p, product.OverwriteSame, nil, true, exit.OK},
		{"the same, never", p, product.OverwriteNever, nil, true, exit.OK},
		{"the same, always", p, product.OverwriteAlways, nil, false, exit.OK},
		{"another model", &other, product.OverwriteSame, nil, false, exit.CannotWrite},
		{"another model, always", &other, product.OverwriteAlways, nil, false, exit.OK},
		{"a damaged file", p, product.OverwriteSame, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "2026010100_048h.nc"), []byte("x"), 0o644)
		}, false, exit.OK},
		{"a damaged file, never", p, product.OverwriteNever, func(dir string) error { return os.Remove(filepath.Join(dir, "2026010100_048h.nc")) }, false, exit.CannotWrite},
		{"no manifest", p, product.OverwriteSame, func(dir string) error { return os.Remove(filepath.Join(dir, "manifest.json")) }, false, exit.OK},
		{"a foreign manifest", p, product.OverwriteSame, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{}"), 0o644)
		}, false, exit.CannotWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "2026010100")
			publish(t, root, p, product.Publication{})
			note := filepath.Join(dir, "note.txt")
			if err := os.WriteFile(note, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.damage != nil {
				if err := c.damage(dir); err != nil {
					t.Fatal(err)
				}
			}
			before := files(t, dir)
			m, already, err := product.Publish(context.Background(), encoder(t), root, c.p, product.Publication{Overwrite: c.policy})
			if exit.CodeOf(err) != c.code || already != c.already {
				t.Fatalf("already %v, error %v; want %v, exit %d", already, err, c.already, c.code)
			}
			if c.code != exit.OK {
				if !reflect.DeepEqual(files(t, dir), before) {
					t.Error("a refusal changed the folder")
				}
				return
			}
			if err := m.Verify(dir); err != nil || m.ModelChecksum != c.p.ModelChecksum {
				t.Errorf("after: %v, model %s", err, m.ModelChecksum)
			}
			if files(t, dir)["note.txt"] != "mine" {
				t.Error("a file of the user's is gone")
			}
		})
	}
}

// Replacing products removes outputs that the new ones lack.
func TestPublishDropsStaleOutputs(t *testing.T) {
	root := t.TempDir()
	p := testProduct(globe(ensemble.SourceOrder{}))
	publish(t, root, p, both)
	publish(t, root, p, product.Publication{Overwrite: product.OverwriteAlways})
	if got := files(t, filepath.Join(root, "2026010100")); len(got) != 3 {
		t.Errorf("%d files, want the NetCDF file and two records", len(got))
	}
}

// Products in another format are added. Products in another form replace the old
// ones. "never" does neither.
func TestPublishInAnotherFormat(t *testing.T) {
	root := t.TempDir()
	p := testProduct(globe(ensemble.SourceOrder{}))
	publish(t, root, p, product.Publication{})
	grib := product.Publication{Formats: []product.Format{product.GRIB2}}
	never := grib
	never.Overwrite = product.OverwriteNever
	if _, _, err := product.Publish(context.Background(), encoder(t), root, p, never); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("never: %v, want exit 73", err)
	}
	m, already, err := product.Publish(context.Background(), encoder(t), root, p, grib)
	if err != nil || already {
		t.Fatalf("already %v, %v", already, err)
	}
	if want := []product.Format{product.GRIB2, product.NetCDF}; !reflect.DeepEqual(m.Formats, want) {
		t.Errorf("formats %v, want %v", m.Formats, want)
	}
	names := files(t, filepath.Join(root, "2026010100"))
	if _, ok := names["2026010100_048h.nc"]; !ok || len(names) < 5 {
		t.Errorf("%d files, want NetCDF and GRIB2", len(names))
	}
	if _, already, err = product.Publish(context.Background(), encoder(t), root, p, grib); err != nil || !already {
		t.Errorf("again: already %v, %v", already, err)
	}
	cdo := product.Publication{Options: product.Options{Profile: product.CDOProfile}}
	if _, already, err = product.Publish(context.Background(), encoder(t), root, p, cdo); err != nil || already {
		t.Errorf("for cdo: already %v, %v", already, err)
	}
}

// Invalid products are not published, and no file is left.
func TestRefusals(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name   string
		change func(p *product.Product)
		code   exit.Code
		text   string
	}{
		{"negative spread", func(p *product.Product) { p.Fields[4].Values[40] = -0.5 }, exit.Bug, "is -0.5 at row 1, column 4"},
		{"infinite mean", func(p *product.Product) { p.Fields[0].Values[0] = inf }, exit.Bug, "+Inf"},
		{"a field twice", func(p *product.Product) { p.Fields = append(p.Fields, p.Fields[0]) }, exit.Bug, "listed twice"},
		{"too few values", func(p *product.Product) { p.Fields[1].Values = p.Fields[1].Values[1:] }, exit.Bug, "467 values"},
		{"no members", func(p *product.Product) { p.Members = nil }, exit.Bug, "count of members"},
		{"no fields", func(p *product.Product) { p.Fields = nil }, exit.Bug, "without fields"},
		{"missing values", func(p *product.Product) { p.Fields[0].Values[0] = nan }, exit.OK, ""},
	} {
		root := t.TempDir()
		p := testProduct(globe(ensemble.SourceOrder{}))
		c.change(p)
		_, _, err := product.Publish(context.Background(), encoder(t), root, p, product.Publication{})
		if exit.CodeOf(err) != c.code || c.text != "" && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want exit %d with %q", c.name, err, c.code, c.text)
		}
		if left, _ := os.ReadDir(root); c.code != exit.OK && len(left) > 0 {
			t.Errorf("%s: left %v", c.name, left)
		}
	}
	for name, pub := range map[string]product.Publication{
		"format":     {Formats: []product.Format{"bufr"}},
		"profile":    {Options: product.Options{Profile: "grads"}},
		"longitudes": {Options: product.Options{Longitude: "0_180"}},
		"packing":    {Formats: []product.Format{product.GRIB2}, Options: product.Options{Packing: "grid_jpeg"}},
	} {
		if _, _, err := product.Publish(context.Background(), encoder(t), t.TempDir(), testProduct(globe(ensemble.SourceOrder{})), pub); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: got %v, want exit 64", name, err)
		}
	}
}

// A refusal names the file that was asked for, not the temporary one.
func TestRefusalsNameTheFile(t *testing.T) {
	root := t.TempDir()
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Fields = []product.Field{{Variable: "hail", Unit: "m", Kind: product.Mean, Values: make([]float32, p.Grid.Size())}}
	_, _, err := product.Publish(context.Background(), encoder(t), root, p, product.Publication{Formats: []product.Format{product.GRIB2}})
	if want := filepath.Join(root, "2026010100", "2026010100_"); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "partial") {
		t.Errorf("got %v, want exit 64 at %s", err, want)
	}
}

// A cancelled child leaves the old file and no other.
func TestCancelledWriteKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.nc")
	p := testProduct(globe(ensemble.SourceOrder{}))
	if err := product.WriteNetCDF(context.Background(), encoder(t), path, p, product.Options{}); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Title = "another"
	if err := product.WriteNetCDF(ctx, encoder(t), path, p, product.Options{}); err != context.Canceled {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if !reflect.DeepEqual(files(t, dir), before) {
		t.Error("the folder changed")
	}
}

// A full disk is reported as such, and leaves the old product.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32k"); err != nil {
		t.Skip("skipped: cannot mount a small file system: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 28<<10), 0o666); err != nil {
		t.Fatal(err)
	}
	p := testProduct(globe(ensemble.SourceOrder{}))
	for name, write := range map[string]func(string) error{
		"a.nc": func(path string) error {
			return product.WriteNetCDF(t.Context(), encoder(t), path, p, product.Options{})
		},
		"a.grib2": func(path string) error {
			q := p.Select(func(f product.Field) bool { return f.Variable == "t" && f.Kind == product.Mean })
			return product.WriteGRIB2(t.Context(), encoder(t), path, q, product.Options{})
		},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		err := write(path)
		if exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want exit 74", name, err)
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != "old" {
			t.Errorf("%s: the old file is %q, %v", name, old, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that cannot be written is exit 73.
func TestUnwritable(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := product.Publish(context.Background(), encoder(t), file, p, product.Publication{}); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("a file as folder: %v", err)
	}
	if err := product.WriteNetCDF(context.Background(), encoder(t), filepath.Join(file, "x.nc"), p, product.Options{}); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("below a file: %v", err)
	}
}

// Statistics of the raw members, of the post-processed distribution and of the full ensemble are different fields, in
// one NetCDF file and in GRIB2 files, although GRIB2 has one code for them.
func TestSpreadsAreDifferentFields(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Fields = nil
	for k, kind := range []product.Kind{product.Mean, product.Spread, product.EnsembleSpread, product.RawMean, product.RawSpread} {
		p.Fields = append(p.Fields, product.Field{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: testLead, Kind: kind, Values: marked(p.Grid.Size(), float64(k+1))})
	}
	root := filepath.Join(t.TempDir(), "products")
	publish(t, root, p, both)
	for _, pattern := range []string{"*.nc", "*.grib2"} {
		paths, err := filepath.Glob(filepath.Join(root, "2026010100", pattern))
		if err != nil {
			t.Fatal(err)
		}
		in, err := fio.Open(t.Context(), paths, fio.Options{Pool: encoder(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cat := in.Catalogue()
		basis := map[string]int{}
		for _, e := range cat.Entries {
			basis[e.Product.String()+" "+e.Basis]++
		}
		want := map[string]int{"mean ": 1, "spread ": 1, "spread " + ensemble.FullEnsemble: 1, "mean " + ensemble.RawMembers: 1, "spread " + ensemble.RawMembers: 1}
		if !reflect.DeepEqual(basis, want) || cat.Duplicates() != nil || len(cat.Groups()) != len(want) {
			t.Errorf("%s: %v, want %v; duplicates %v", pattern, basis, want, cat.Duplicates())
		}
	}
}

// TestOtherSource: products of other sources stay, with an error that names the files that differ. The source of the
// wanted products, if accepted, replaces them; another one does not.
func TestOtherSource(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Inputs = []manifest.File{{Path: "a.grib2", SHA256: "a1"}, {Path: "b.grib2", SHA256: "b1"}, {Path: "old.grib2", SHA256: "o"}}
	root := t.TempDir()
	publish(t, root, p, product.Publication{})
	refused := func(q *product.Product, pub product.Publication) *product.OtherSource {
		t.Helper()
		_, _, err := product.Publish(context.Background(), encoder(t), root, q, pub)
		var other *product.OtherSource
		if exit.CodeOf(err) != exit.CannotWrite || !errors.As(err, &other) {
			t.Fatalf("%v", err)
		}
		return other
	}
	q := *p
	q.Inputs = []manifest.File{{Path: "a.grib2", SHA256: "a2"}, {Path: "b.grib2", SHA256: "b1"}, {Path: "new.grib2", SHA256: "n"}}
	other := refused(&q, product.Publication{})
	if other.Model || other.Inputs != "a.grib2 changed, new.grib2 added, old.grib2 removed" || !reflect.DeepEqual(other.Differences, []string{"other inputs"}) {
		t.Errorf("%+v", other)
	}
	model := q
	model.ModelChecksum = "sha256:other"
	if x := refused(&model, product.Publication{Accepted: other.Wanted}); !x.Model || x.Inputs != other.Inputs || x.Wanted == other.Wanted {
		t.Errorf("with another model, for which nothing was accepted: %+v", x)
	}
	m, already := publish(t, root, &q, product.Publication{Overwrite: product.OverwriteNever, Accepted: other.Wanted})
	if already || m.SourceID() != other.Wanted || !reflect.DeepEqual(manifest.Checksums(m.Inputs), manifest.Checksums(q.Inputs)) {
		t.Errorf("accepted: already %v, %+v", already, m)
	}
	if x := refused(p, product.Publication{Accepted: other.Wanted}); x.Wanted == other.Wanted {
		t.Error("two sources have one identity")
	}
	r := *p
	r.Inputs = nil
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		r.Inputs = append(r.Inputs, manifest.File{Path: name, SHA256: name})
	}
	if x := refused(&r, product.Publication{}); x.Inputs != "1 added, 2 added, 3 added and 5 more" {
		t.Errorf("%q", x.Inputs)
	}
}
