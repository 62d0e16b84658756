package grib

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/columnfile"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// saved encodes an index as a file.
func saved(t testing.TB, x *Index) []byte {
	t.Helper()
	h, columns := x.Save()
	text, err := columnfile.Encode("test/1", h, columns)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func restored(text []byte) (*Index, error) {
	var h SavedIndex
	c, err := columnfile.Decode(text, "test/1", &h)
	if err != nil {
		return nil, err
	}
	return h.Index(c)
}

// sample is an index in which no member of a field is zero.
func sample(t testing.TB) *Index {
	t.Helper()
	m := Message{Number: 3, Offset: 1 << 40, Length: 77, Edition: 2, Fields: []Sections{{1: {16, 21}, 7: {40, 1 << 33}}}}
	f := Field{Message: 3, Sub: 1, Offset: 1 << 40, Length: 77, Edition: 2, Sections: m.Fields[0], Partial: true, Kind: ID{1, 2}, Grid: ID{15: 9},
		Time:   Time{true, "no year", time.Date(2017, 2, 26, 6, 0, 1, 0, time.UTC), time.Hour, -time.Nanosecond, true, "sum"},
		Member: Member{true, true, -5, 51, PositivePerturbation, 12}, Template: 11, Centre: 98, Process: 255, Level: ensemble.Layer(ensemble.HeightAboveSoil, 2, 5), LevelKnown: true, LevelReason: "no value", LevelType: "surface103",
		Product: ensemble.Probability, ProductKnown: true, Below: 0.1, Event: ensemble.Event{Relation: ensemble.Between, Lower: math.SmallestNonzeroFloat64, Upper: math.Inf(1)},
		Parameter: "0.1.8", codes: [3]int{1, -2, 3}, dataType: "pf", packing: "grid_simple"}
	whole(t, reflect.ValueOf(f), "Field")
	second := f
	second.Sub, second.Parameter, second.Time, second.packing = 2, "0.1.9", Time{}, ""
	m.Fields = append(m.Fields, second.Sections)
	last := Message{Number: 4, Offset: 5, Length: 6, Edition: 1, Fields: []Sections{{}}}
	return &Index{Result{Messages: []Message{m, last}, Junk: []Junk{{0, 3}, {9, 1 << 50}}}, []Field{f, second, {Message: 4, Sub: 1, Offset: 5, Length: 6, Edition: 1}}}
}

// whole fails if a member of a struct is zero, because a member that is not saved
// would stay unnoticed.
func whole(t testing.TB, v reflect.Value, name string) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is zero in the sample", name)
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			whole(t, v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	}
}

// An index is restored completely, for synthetic and real files.
func TestSavedIndex(t *testing.T) {
	all := map[string]*Index{"made up": sample(t), "empty": {Fields: []Field{}}}
	if testdata.Root() != "" {
		files, err := filepath.Glob(filepath.Join(testdata.Root(), "formats", "grib[12]", "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no GRIB files in formats/grib1 and grib2 of the test data %s (ENSEMBLE_TEST_DATA): %v", testdata.Root(), err)
		}
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if x := index(t, b); len(x.Faults) == 0 {
				all[path] = x
			}
		}
	}
	for name, x := range all {
		got, err := restored(saved(t, x))
		if err != nil || !reflect.DeepEqual(got, x) {
			t.Errorf("%s:\n%+v became\n%+v, %v", name, x, got, err)
		}
	}
}

// A modified index allocates no more than its bytes justify, and if it is accepted
// it can be saved again.
func FuzzSavedIndex(f *testing.F) {
	h, columns := sample(f).Save()
	head, err := json.Marshal(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head, columns)
	f.Add([]byte(`{"messages":-1,"fields":9223372036854775807,"junk":1}`), columns)
	f.Add([]byte(`{}`), []byte{})
	f.Fuzz(func(t *testing.T, head, columns []byte) {
		text, err := columnfile.Encode("test/1", json.RawMessage(head), columns)
		if err != nil {
			return
		}
		x, err := restored(text)
		if err != nil {
			return
		}
		again := saved(t, x)
		if y, err := restored(again); err != nil || !bytes.Equal(saved(t, y), again) {
			t.Errorf("%+v is not kept: %v", x, err)
		}
	})
}
