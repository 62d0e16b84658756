package published

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// publish writes an initialisation with a mean of one value, as predict does.
func publish(t *testing.T, root string, day int, value float32) *Init {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 2, NY: 2, Lat: []float64{10, 0}, Lon: []float64{0, 10}}
	at := time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)
	p := &product.Product{Init: ensemble.InitAt(at), Grid: g, Metadata: product.Metadata{Members: []ensemble.Member{0, 1}, Control: "include"},
		Fields: []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Lead: ensemble.Lead(24 * time.Hour), Kind: product.Mean, Values: []float32{value, value, value, value}}}}
	m, _, err := product.Publish(t.Context(), pool, root, p, product.Publication{Overwrite: product.OverwriteAlways})
	if err != nil {
		t.Fatal(err)
	}
	return &Init{Name: product.InitName(p.Init), Time: at, Manifest: m, Revision: fmt.Sprint(value)}
}

// first reads the first value of a forecast.
func first(t *testing.T, f *Forecast) (v float32) {
	t.Helper()
	entries := Index(f, func(e []ensemble.Entry) []ensemble.Entry { return e })
	if err := f.Read(t.Context(), entries[:1], ensemble.Window{}, func(_ int, x *ensemble.Field) error { v = x.Values[0]; return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestReader: a forecast stays open between uses until its products are replaced, it is forgotten, or others are used; who
// uses it then can read it to the end.
func TestReader(t *testing.T) {
	root := t.TempDir()
	asked := 0
	r := NewReader(func(of *Init, output string) (string, error) {
		asked++
		return filepath.Join(root, of.Name, output), nil
	}, decode.Options{Program: testdecoder.Path(t), Children: 1})
	defer r.Close()
	open := func(of *Init) *Forecast {
		t.Helper()
		f, err := r.Open(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	old := publish(t, root, 1, 1)
	a, b := open(old), open(old)
	if a != b || asked != 1 || first(t, a) != 1 {
		t.Fatalf("%d files asked for, value %v", asked, first(t, a))
	}
	b.Release()

	replaced := publish(t, root, 1, 2)
	c := open(replaced)
	if c == a || first(t, c) != 2 {
		t.Errorf("replaced products: value %v, want 2", first(t, c))
	}
	if !a.closed || a.users != 1 {
		t.Errorf("the replaced forecast is closed: %v, with %d users", a.closed, a.users)
	}
	a.Release()
	c.Release()
	if f := r.Cached(func(o *Init) bool { return o.Revision == "2" }); f != c {
		t.Error("the open forecast was not found")
	} else {
		f.Release()
	}

	for day := 2; day <= maxOpened+1; day++ {
		open(publish(t, root, day, float32(day))).Release()
	}
	if len(r.opened) != maxOpened || !c.closed {
		t.Errorf("%d are open, the least recently used one closed: %v", len(r.opened), c.closed)
	}
	r.Forget("2026010200")
	if f := r.Cached(func(o *Init) bool { return o.Name == "2026010200" }); f != nil {
		t.Error("a forgotten forecast is open")
	}
	if _, err := r.Open(t.Context(), &Init{Name: "2026020100", Manifest: &product.Manifest{}}); !errors.Is(err, ErrNoFields) {
		t.Errorf("without files: %v", err)
	}
}
