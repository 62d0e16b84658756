package product_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// everyKind is a product with a field of each kind that readers return, at two leads.
func everyKind() *product.Product {
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Fields = nil
	t2m := ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}
	for _, lead := range []ensemble.Lead{testLead / 2, testLead} {
		for i, f := range []product.Field{{Kind: product.Mean}, {Kind: product.Spread}, {Kind: product.EnsembleSpread}, {Kind: product.RawMean}, {Kind: product.RawSpread}, {Kind: product.Quantile, Below: 0.1}, {Kind: product.Quantile, Below: 0.9},
			{Kind: product.Probability, Event: ensemble.Event{Relation: ensemble.Above, Lower: 273.15}}, {Kind: product.Probability, Event: ensemble.Event{Relation: ensemble.Between, Lower: 270, Upper: 275}}, {Kind: product.Member, Member: 0}, {Kind: product.Member, Member: 3}} {
			f.Variable, f.Level, f.Lead, f.Values = "2t", t2m, lead, make([]float32, p.Grid.Size())
			for k := range f.Values {
				f.Values[k] = float32(i+1)/20 + float32(k)*1e-5 + float32(lead.Hours())*1e-3
			}
			p.Fields = append(p.Fields, f)
		}
	}
	return p
}

// TestDescribe: the description of a field is what a file of the profile cdo states of it, and its kind is found again by
// readers, at several leads in a file too.
func TestDescribe(t *testing.T) {
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, profile := range []product.Profile{product.CDOProfile, product.XarrayProfile} {
		p := everyKind()
		path := filepath.Join(t.TempDir(), "all.nc")
		if err := product.WriteNetCDF(context.Background(), pool, path, p, product.Options{Profile: profile}); err != nil {
			t.Fatal(err)
		}
		in, err := fio.Open(t.Context(), []string{path}, fio.Options{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		entries := in.Catalogue().Entries
		if len(entries) != len(p.Fields) {
			t.Errorf("profile %q: %d fields are read, %d were written", profile, len(entries), len(p.Fields))
		}
		err = in.Read(t.Context(), entries, func(i int, got *ensemble.Field) error {
			e := entries[i]
			n := slices.IndexFunc(p.Fields, func(f product.Field) bool {
				return f.Kind == product.KindOf(e) && f.Lead == e.Lead && f.Below == e.QuantileProbability && f.Event == e.Event && (f.Kind != product.Member || f.Member == e.Member)
			})
			if n < 0 {
				t.Errorf("profile %q: %s is no field that was written", profile, e)
				return nil
			}
			d, ok := p.Fields[n].Describe()
			if !slices.Equal(got.Values, p.Fields[n].Values) || !ok || d.Unit != e.Unit || profile == product.CDOProfile && (d.Name != e.Name || d.LongName != e.LongName) {
				t.Errorf("profile %q: %s has the name %q, %q, %q, want %+v, and values from %v, want %v", profile, e, e.Name, e.LongName, e.Unit, d, got.Values[0], p.Fields[n].Values[0])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		in.Close()
	}
	if _, ok := (product.Field{Kind: "mode"}).Describe(); ok {
		t.Error("an unknown kind is described")
	}
}

// TestSeveralLeads: every field of a variable is at every lead of a file, or the file is refused.
func TestSeveralLeads(t *testing.T) {
	p := everyKind()
	p.Fields = slices.DeleteFunc(p.Fields, func(f product.Field) bool { return f.Lead == testLead && f.Below == 0.9 })
	err := product.WriteNetCDF(context.Background(), nil, filepath.Join(t.TempDir(), "x.nc"), p, product.Options{})
	if exit.CodeOf(err) != exit.Bug {
		t.Errorf("a quantile is missing at a lead: %v", err)
	}
}

// TestContents: the kinds and leads of a manifest are those of the fields.
func TestContents(t *testing.T) {
	p := everyKind()
	p.Fields[0].Lead = ensemble.Lead(90 * time.Minute)
	kinds, leads := (&product.Publication{}).Manifest(p).Contents()
	if want := []product.Kind{product.EnsembleSpread, product.Mean, product.Member, product.Probability, product.Quantile, product.RawMean, product.RawSpread, product.Spread}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if want := []ensemble.Lead{ensemble.Lead(90 * time.Minute), testLead / 2, testLead}; !slices.Equal(leads, want) {
		t.Errorf("leads %v, want %v", leads, want)
	}
}
