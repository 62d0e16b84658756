package product_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testseed"
	"github.com/ensemble-weather/ensemble/io/product"
)

// recorded is the manifest of a publication of the test product, with a change of product and publication.
func recorded(change func(p *product.Product, pub *product.Publication)) *product.Manifest {
	p := testProduct(globe(ensemble.SourceOrder{}))
	pub := product.Publication{ConfigChecksum: "sha256:c0"}
	change(p, &pub)
	return pub.Manifest(p)
}

// missing are members that were expected and not used.
func missing(members ...ensemble.Member) (all []product.MissingMember) {
	for _, m := range members {
		all = append(all, product.MissingMember{Member: m, Reason: "no file"})
	}
	return all
}

// TestDegradedAreReplaced: products of an incomplete input are replaced by those with more members, or by complete ones, of the same
// model; others stay.
func TestDegradedAreReplaced(t *testing.T) {
	type change = func(p *product.Product, pub *product.Publication)
	members := func(used []ensemble.Member, without ...ensemble.Member) change {
		return func(p *product.Product, pub *product.Publication) {
			p.Members, pub.MissingMembers, pub.ExpectedMembers = used, missing(without...), len(used)+len(without)
			p.Inputs = []manifest.File{{Path: "in.grib2", Size: 12, SHA256: strings.Repeat("a", len(used)) + strings.Repeat("b", len(without))}}
		}
	}
	both := func(a, b change) change {
		return func(p *product.Product, pub *product.Publication) {
			a(p, pub)
			b(p, pub)
		}
	}
	three, four := []ensemble.Member{0, 1, 2}, []ensemble.Member{0, 1, 2, 3}
	for _, c := range []struct {
		name     string
		old, new change
		replaced bool
	}{
		{"more members", members(three, 3, 4), members(four, 4), true},
		{"fewer members", members(four, 4), members(three, 3, 4), false},
		{"as many, of which fewer are missing", members(three, 3, 4), members(three, 3), true},
		{"as many, of which as many are missing", members(three, 3, 4), members([]ensemble.Member{0, 1, 3}, 2, 4), false},
		{"as many, complete", members(three, 3), members(three), true},
		{"complete ones", members(three), members(four), false},
		{"another initialisation", members(three, 3), both(members(four), func(p *product.Product, _ *product.Publication) {
			p.Init = ensemble.InitAt(testInit.Add(6 * time.Hour))
		}), false},
		{"another model", members(three, 3), both(members(four), func(p *product.Product, _ *product.Publication) { p.ModelChecksum = "sha256:01" }), false},
		{"another configuration", members(three, 3), both(members(four), func(_ *product.Product, pub *product.Publication) { pub.ConfigChecksum = "sha256:c1" }), false},
		{"another version", members(three, 3), both(members(four), func(p *product.Product, _ *product.Publication) { p.Version = "0.2.0" }), false},
		{"a fallback by the network, of the same input", both(members(three, 3), func(p *product.Product, _ *product.Publication) { p.Fallback = "raw" }),
			both(members(three, 3), func(_ *product.Product, pub *product.Publication) { pub.MissingMembers = nil }), false},
		{"a fallback, of more members", both(members(three, 3), func(p *product.Product, _ *product.Publication) { p.Fallback = "raw" }), members(four), true},
	} {
		for _, policy := range []product.Overwrite{product.OverwriteSame, "same", product.OverwriteNever} {
			dir := t.TempDir()
			if err := manifest.Write(dir, recorded(c.old)); err != nil {
				t.Fatal(err)
			}
			got, err := product.FindPublished(dir, recorded(c.new), policy, "")
			if replaced := err == nil && got == nil; replaced != (c.replaced && policy != product.OverwriteNever) || err != nil && exit.CodeOf(err) != exit.CannotWrite {
				t.Errorf("%s, overwrite %q: %v, %v", c.name, policy, got, err)
			}
		}
	}
}

// TestFormsDiffer: products that differ from the existing ones in a property of their form are recomputed; a part of the formats is there.
func TestFormsDiffer(t *testing.T) {
	type change = func(p *product.Product, pub *product.Publication)
	old := func(_ *product.Product, pub *product.Publication) {
		pub.Formats = []product.Format{product.NetCDF, product.Zarr}
	}
	for name, c := range map[string]struct {
		change change
		there  bool
	}{
		"the same":      {func(*product.Product, *product.Publication) {}, true},
		"fewer formats": {func(_ *product.Product, pub *product.Publication) { pub.Formats = pub.Formats[:1] }, true},
		"other format":  {func(_ *product.Product, pub *product.Publication) { pub.Formats = append(pub.Formats, product.GRIB2) }, false},
		"profile":       {func(_ *product.Product, pub *product.Publication) { pub.Profile = product.CDOProfile }, false},
		"longitude":     {func(_ *product.Product, pub *product.Publication) { pub.Longitude = "0_360" }, false},
		"packing":       {func(_ *product.Product, pub *product.Publication) { pub.Quantise = 12 }, false},
		"grid":          {func(p *product.Product, _ *product.Publication) { p.Grid.NX = 18; p.Grid.Lon = p.Grid.Lon[:18] }, false},
		"stations":      {func(p *product.Product, _ *product.Publication) { q := *p; p.AtStations = &q }, false},
		"coupling":      {func(p *product.Product, _ *product.Publication) { p.Coupling = "ecc-q" }, false},
		"leads read":    {func(p *product.Product, _ *product.Publication) { p.LeadsRead = "48h" }, false},
		"fields":        {func(p *product.Product, _ *product.Publication) { p.Fields = p.Fields[1:] }, false},
	} {
		dir := t.TempDir()
		if err := manifest.Write(dir, recorded(old)); err != nil {
			t.Fatal(err)
		}
		want := recorded(func(p *product.Product, pub *product.Publication) {
			old(p, pub)
			c.change(p, pub)
		})
		if got, err := product.FindPublished(dir, want, product.OverwriteSame, ""); err != nil || (got != nil) != c.there {
			t.Errorf("%s: found %v, %v", name, got != nil, err)
		}
		if _, err := product.FindPublished(dir, want, product.OverwriteNever, ""); (err == nil) != c.there || err != nil && exit.CodeOf(err) != exit.CannotWrite {
			t.Errorf("%s, never: %v", name, err)
		}
	}
}

// TestNotADirectory: a file where the directory of products should be is an error, not an initialisation that is to be made.
func TestNotADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "2026010100")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want := recorded(func(*product.Product, *product.Publication) {})
	if got, err := product.FindPublished(file, want, product.OverwriteSame, ""); got != nil || exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("%v, %v, want exit 73", got, err)
	}
}

// TestManifestOfAPublication: the status, the counts of members and the forms of a manifest, and what stations have of them.
func TestManifestOfAPublication(t *testing.T) {
	type change = func(p *product.Product, pub *product.Publication)
	for name, c := range map[string]struct {
		change             change
		status             string
		complete, expected int
	}{
		"usual":                     {func(*product.Product, *product.Publication) {}, manifest.OK, 5, 5},
		"a member is missing":       {func(_ *product.Product, pub *product.Publication) { pub.MissingMembers = missing(5) }, manifest.Degraded, 5, 5},
		"one of those is damaged":   {func(_ *product.Product, pub *product.Publication) { pub.CompleteMembers = 4 }, manifest.Degraded, 4, 5},
		"more are expected":         {func(_ *product.Product, pub *product.Publication) { pub.ExpectedMembers = 6 }, manifest.Degraded, 5, 6},
		"more are complete":         {func(_ *product.Product, pub *product.Publication) { pub.CompleteMembers = 6 }, manifest.OK, 6, 5},
		"degraded for other causes": {func(_ *product.Product, pub *product.Publication) { pub.Degraded = true }, manifest.Degraded, 5, 5},
	} {
		m := recorded(c.change)
		if m.Status != c.status || m.MembersComplete != c.complete || m.MembersExpected != c.expected || m.MembersMissing == nil || m.Stations != "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	m := recorded(func(p *product.Product, pub *product.Publication) {
		pub.Formats = []product.Format{product.Zarr, product.NetCDF, product.Zarr}
		q := *p
		q.Locations = make([]ensemble.Station, 2)
		p.AtStations = &q
	})
	if !reflect.DeepEqual(m.Formats, []product.Format{product.NetCDF, product.Zarr}) || m.Profile != "xarray" || m.Longitude != "keep" || !strings.HasPrefix(m.Stations, "2, sha256:") {
		t.Errorf("%+v", m)
	}
}

// TestContentsOfOthers: fields of a manifest that are not written as this program writes them are passed over.
func TestContentsOfOthers(t *testing.T) {
	m := &product.Manifest{Fields: []string{"t 850hPa 48h", "", "t 850hPa soon spread", "t 850hPa 48h quantile 0.1", "t 850hPa 24h quantile 0.1"}}
	if kinds, leads := m.Contents(); !reflect.DeepEqual(kinds, []product.Kind{product.Quantile}) || !reflect.DeepEqual(leads, []ensemble.Lead{testLead / 2, testLead}) {
		t.Errorf("kinds %v, leads %v", kinds, leads)
	}
}

// TestKindsOfSources: what the existing products were made from, and whether that is of the model or of the input. Moved inputs do not count.
func TestKindsOfSources(t *testing.T) {
	for other, c := range map[string]struct {
		change func(p *product.Product, pub *product.Publication)
		model  bool
	}{
		"another initialisation": {func(p *product.Product, _ *product.Publication) {
			p.Init = ensemble.InitAt(testInit.Add(6 * time.Hour))
		}, false},
		"another model":                  {func(p *product.Product, _ *product.Publication) { p.ModelChecksum = "sha256:01" }, true},
		"another training configuration": {func(_ *product.Product, pub *product.Publication) { pub.ConfigChecksum = "sha256:c1" }, true},
		"another version of the program": {func(p *product.Product, _ *product.Publication) { p.Version = "0.2.0" }, true},
		"other members":                  {func(p *product.Product, _ *product.Publication) { p.Members = p.Members[1:] }, false},
	} {
		dir := t.TempDir()
		if err := manifest.Write(dir, recorded(func(*product.Product, *product.Publication) {})); err != nil {
			t.Fatal(err)
		}
		_, err := product.FindPublished(dir, recorded(func(p *product.Product, pub *product.Publication) {
			p.Inputs = []manifest.File{{Path: "moved.grib2", Size: 12, SHA256: "ab12"}}
			c.change(p, pub)
		}), product.OverwriteSame, "")
		var e *product.OtherSource
		if !errors.As(err, &e) || !reflect.DeepEqual(e.Differences, []string{other}) || e.Model != c.model || e.Inputs != "" {
			t.Errorf("%s: %v, %+v", other, err, e)
		}
	}
}

// TestFault21FileByFile: in a directory with a file of others products are replaced file by file. An error at any operation is reported; the
// directory then has whole products or no manifest, the next command replaces them, and the file stays. (Every operation:
// TestLongFault21FileByFile.)
func TestFault21FileByFile(t *testing.T) { replaceFileByFile(t, 3) }

// TestUnopenedFolder: a directory of products, or the stage of the new ones, that cannot be opened to replace file by file is an error, and the old products stay.
func TestUnopenedFolder(t *testing.T) {
	dir, replace := replaceable(t)
	if err := errors.Join(replace(), os.WriteFile(filepath.Join(dir, "note.txt"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for round := range faultfs.Rounds(faultfs.Fault{Of: []faultfs.Kind{faultfs.Open}, At: func(op faultfs.Operation) bool {
		st, err := os.Stat(op.Path)
		return err == nil && st.IsDir() && op.Path != filepath.Dir(dir) // which the lease locks where it can
	}, Err: unix.EIO}, 1) {
		op, err := round.Run(t, replace)
		if op == nil {
			break
		}
		if failed++; !errors.Is(err, unix.EIO) {
			t.Errorf("%s of %s fails: %v", op.Kind, op.Path, err)
		}
		m, err := product.ReadManifest(dir)
		if err == nil {
			err = m.Verify(dir)
		}
		if err != nil {
			t.Errorf("%s of %s fails: the products %v", op.Kind, op.Path, err)
		}
	}
	if failed < 2 { // both folders
		t.Errorf("%d folders were opened", failed)
	}
}

// replaceFileByFile makes one of every operations fail, the first of which the seed selects.
func replaceFileByFile(t *testing.T, every int) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	dir, replace := replaceable(t)
	note := filepath.Join(dir, "note.txt")
	if err := errors.Join(replace(), os.WriteFile(note, []byte("mine"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for round := range faultfs.Rounds(faultfs.Fault{N: 1 + r.IntN(every), Of: faultfs.Changing, Err: unix.ENOSPC}, every) {
		op, err := round.Run(t, replace)
		if op == nil {
			break
		}
		if err != nil && !errors.Is(err, unix.ENOSPC) || err == nil && op.Kind != faultfs.Remove {
			t.Errorf("%v: %v", op, err)
		}
		if m, err := product.ReadManifest(dir); err == nil {
			if err := m.Verify(dir); err != nil {
				t.Errorf("%v: %v", op, err)
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: %v", op, err)
		}
		if err := replace(); err != nil {
			t.Errorf("%v: then %v", op, err)
		}
		if text, err := os.ReadFile(note); err != nil || string(text) != "mine" {
			t.Errorf("%v: the file of others is %q, %v", op, text, err)
		}
	}
}
