package scoring

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/columnfile"
	"github.com/ensemble-weather/ensemble/internal/mutate"
	couplingtest "github.com/ensemble-weather/ensemble/postproc/coupling"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// payload is a NaN that no computation makes.
var payload = math.Float64frombits(0x7ff8_0000_dead_beef)

// syntheticSums have every part, including numbers that JSON cannot represent.
func syntheticSums() *SavedSums {
	init := ensemble.InitAt(time.Date(2017, 2, 26, 6, 30, 0, 1, time.UTC))
	date := func(init ensemble.Init, sums ...float64) *score.Date {
		return &score.Date{Init: init, Members: []int{0, 10}, Regions: []score.RegionSums{
			{Weight: 1.0 / 3, Points: 7, Missing: 2, MissingMembers: []int{0, 3}, Sums: sums}, {Weight: payload, MissingMembers: []int{1, 0}, Sums: []float64{}}}}
	}
	coupled := []couplingDate{
		{"raw", -1, couplingtest.Date{Members: 10, Error: []float32{1.5, math.Float32frombits(0x7fc0_1234), float32(math.Inf(-1))}, Spread: math.MaxFloat64,
			Sizes: []couplingtest.SizeSums{{Members: 10, Sums: [3]float64{1, 2, 3}}, {Members: 5, Sums: [3]float64{payload, 5, 6}}}, Cross: [3]float64{7, 8, 9}}},
		{"emos", 4, couplingtest.Date{Members: 3, Error: []float32{}}},
	}
	return &SavedSums{
		Trained: []score.Coupling{{Test: "r", Text: "<ratio> & more", System: "network", Variable: "t", Level: "850hPa", Lead: "48h", LeadH: 48,
			Value: 1.0 / 3, CILow: score.Number(payload), CIHigh: score.Number(math.Inf(1)), Expected: 1, Decided: true, Passed: true, Members: 10, N: 3, DatesFrom: score.FromTraining}},
		Targets: []TargetSums{
			{[]byte(`{"target":{"unit":"a\u003cb"}}`), []DateSums{
				{Distribution: date(init, 0.1, math.Copysign(0, -1), payload, math.Inf(1), math.SmallestNonzeroFloat64), Spread: date(init),
					Reduction: &datedReduction{Init: init, Sums: []skill.Sums{{1, 2, payload}, {}}, CRPS: 0.1, Points: 9}, Coupling: coupled},
				{Spread: date(ensemble.InitAt(init.AddDate(0, 0, 1)), 2)}, {}}},
			{[]byte(`null`), nil}}}
}

// checkIdentical compares bits, including NaN payloads.
func checkIdentical(t *testing.T, got, want *SavedSums) {
	t.Helper()
	var columns [2][]byte
	for i, s := range []*SavedSums{got, want} {
		var walk func(v reflect.Value)
		walk = func(v reflect.Value) {
			switch v.Kind() {
			case reflect.Float64, reflect.Float32:
				columns[i] = columnfile.Append(columns[i], math.Float64bits(v.Float()))
			case reflect.Pointer:
				columns[i] = columnfile.Append(columns[i], !v.IsNil())
				if !v.IsNil() {
					walk(v.Elem())
				}
			case reflect.Slice, reflect.Array:
				columns[i] = columnfile.Append(columns[i], int64(v.Len()))
				for k := range v.Len() {
					walk(v.Index(k))
				}
			case reflect.Struct:
				if x, ok := v.Interface().(ensemble.Init); ok {
					columns[i] = append(columns[i], x.Format(time.RFC3339Nano)...)
					return
				}
				for k := range v.NumField() {
					walk(v.Field(k))
				}
			case reflect.String:
				columns[i] = append(columns[i], v.String()...)
			case reflect.Int:
				columns[i] = columnfile.Append(columns[i], v.Int())
			case reflect.Bool:
				columns[i] = columnfile.Append(columns[i], v.Bool())
			case reflect.Uint8:
				columns[i] = append(columns[i], uint8(v.Uint()))
			default:
				t.Fatalf("a %s is not compared", v.Type())
			}
		}
		walk(reflect.ValueOf(s))
	}
	if !bytes.Equal(columns[0], columns[1]) {
		t.Errorf("%+v became %+v", want, got)
	}
}

// Sums survive a round trip bit by bit, also empty ones.
func TestSumsRoundTrip(t *testing.T) {
	for _, want := range []*SavedSums{syntheticSums(), {}} {
		path := filepath.Join(t.TempDir(), "a.sums")
		if err := want.Save(path); err != nil {
			t.Fatal(err)
		}
		got, err := LoadSums(path)
		if err != nil {
			t.Fatal(err)
		}
		checkIdentical(t, got, want)
	}
}

// headOf returns the header of a file of sums, and the numbers behind it.
func headOf(t testing.TB, s *SavedSums) (head, columns []byte) {
	t.Helper()
	text, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.SplitN(text, []byte{'\n'}, 4)
	return parts[2], parts[3]
}

// Files of sums contain names of the format, independent of the program's identifiers.
func TestSumsHaveTheirOwnNames(t *testing.T) {
	head, _ := headOf(t, syntheticSums())
	const want = `{"trained":[{"test":"r","input_members":0,"text":"\u003cratio\u003e \u0026 more","system":"network","variable":"t","level":"850hPa","lead":"48h","lead_h":48,` +
		`"value":0.3333333333,"ci_low":null,"ci_high":null,"expected":1,"decided":true,"passed":true,"members":10,"n":3,"dates_from":"training"}],` +
		`"targets":[{"head":{"target":{"unit":"a\u003cb"}},"dates":[{` +
		`"distribution":{"init":"2017-02-26T06:30:00.000000001Z","members":[0,10],"regions":[{"points":7,"missing":2,"absent":[0,3],"sums":5},{"points":0,"missing":0,"absent":[1,0],"sums":0}]},` +
		`"spread":{"init":"2017-02-26T06:30:00.000000001Z","members":[0,10],"regions":[{"points":7,"missing":2,"absent":[0,3],"sums":0},{"points":0,"missing":0,"absent":[1,0],"sums":0}]},` +
		`"reduction":{"init":"2017-02-26T06:30:00.000000001Z","points":9,"sums":[3,0]},` +
		`"coupling":[{"system":"raw","leaks":-1,"members":10,"errors":3,"sizes":[10,5]},{"system":"emos","leaks":4,"members":3,"errors":0,"sizes":[]}]},` +
		`{"spread":{"init":"2017-02-27T06:30:00.000000001Z","members":[0,10],"regions":[{"points":7,"missing":2,"absent":[0,3],"sums":1},{"points":0,"missing":0,"absent":[1,0],"sums":0}]}},{}]},` +
		`{"head":null,"dates":[]}]}`
	if string(head) != want {
		t.Errorf("the head is\n%s, want\n%s", head, want)
	}
	h, err := json.Marshal(SumsHeader{Target: headerTarget{"t", ensemble.PressureLevel(850), ensemble.Lead(time.Hour), "K"}, Grid: &ensemble.Grid{NX: 1, NY: 1, Lat: []float64{0}, Lon: []float64{0}}})
	const wantTarget = `{"target":{"variable":"t","level":"850hPa","lead_ns":3600000000000,"unit":"K"},` +
		`"grid":{"kind":"regular_ll","nx":1,"ny":1,"lat":[0],"lon":[0],"source":{"south_first":false,"east_first":false,"column_major":false,"roll":0,"first_lon":0,"scanning_mode":0}},"ddof":0,` +
		`"shape":{"mean":false,"spread":false,"obs":false,"used":0,"full":0,"calibrated":0,"earlier":0,"published":0},"selection":{"scores":null,"events":null,"regions":null,"seasons":false,"weights":"","radius":0},` +
		`"methods":null,"affine":{"a":0,"b":0},"split":0,"quantile":0,"family":"","parameters":0,"published":{"thresholds":null,"levels":null}}`
	if err != nil || string(h) != wantTarget {
		t.Errorf("the head of a target is\n%s, want\n%s, %v", h, wantTarget, err)
	}
}

// Sums with a modified header or numbers are refused, or survive a round trip; no count allocates more than
// there are numbers.
func FuzzSums(f *testing.F) {
	head, columns := headOf(f, syntheticSums())
	f.Add(head, columns)
	f.Add(head, columns[:len(columns)-1])
	f.Add(bytes.Replace(head, []byte(`"sums":5`), []byte(`"sums":9223372036854775807`), 1), columns)
	f.Add(bytes.Replace(head, []byte(`"errors":3`), []byte(`"errors":-1`), 1), columns)
	f.Add([]byte(`{}`), []byte{})
	for seed := range uint64(20) {
		f.Add(mutate.File(rand.New(rand.NewPCG(seed, 1)), [][]byte{head}), columns)
	}
	f.Fuzz(func(t *testing.T, head, columns []byte) {
		text, err := columnfile.Encode(SumsSchema, json.RawMessage(head), columns)
		if err != nil {
			return
		}
		s, err := parseSums(text)
		if err != nil {
			return
		}
		again, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseSums(again)
		if err != nil {
			t.Fatal(err)
		}
		checkIdentical(t, back, s)
	})
}
