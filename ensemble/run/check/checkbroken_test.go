package check

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// wantFaults are the expected faults of files with valid structure and wrong content; files that are not listed cannot be
// read at all.
var wantFaults = map[string]string{
	"member_missing": "member 4 is missing everywhere", "member_twice_same": "in the input twice with equal values",
	"member_number_twice_other_values": "two messages describe the same field and differ", "member_is_copy_of_another": "members 3, 5 of initialisation 2012-09-20T00:00Z are copies",
	"member_from_other_day": "initialisations are mixed", "member_with_other_step": "member 6 is missing at lead 96h", "member_on_shifted_grid": "(Dj)",
	"member_constant": "1 field of z at 500hPa almost constant", "member_zero_range": "1 field of z at 500hPa with the same value at all points",
	"member_values_absurd": "values of z at 500hPa are outside", "only_one_member": "one member has no spread",
	"scale_factor_zero": "scale_factor is 0", "scale_factor_nan": "scale_factor is NaN", "units_unknown": `unit "?" of 2t cannot be converted to K`, "all_fill": "fields without any value",
}

// TestCheckBroken checks that every damaged file is survived: unreadable files are named, damage of others is
// listed, and files with wrong content but valid structure are reported.
func TestCheckBroken(t *testing.T) {
	dir := testdata.Dir(t, "broken")
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{Children: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b, err := os.ReadFile(filepath.Join(dir, "derived", "table.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table map[string]json.RawMessage
	if err := json.Unmarshal(b, &table); err != nil {
		t.Fatal(err)
	}
	expect := map[string]string{}
	for name, raw := range table {
		var row struct{ Expect string }
		if json.Unmarshal(raw, &row) == nil && row.Expect != "" {
			expect[filepath.Join("derived", name)] = row.Expect
		}
	}
	real, err := filepath.Glob(filepath.Join(dir, "real", "*"))
	if err != nil || len(real) == 0 || len(expect) < 100 {
		t.Fatalf("%d and %d files, %v", len(real), len(expect), err)
	}
	for _, path := range real {
		expect[filepath.Join("real", filepath.Base(path))] = "either"
	}
	for name, kind := range expect {
		path := filepath.Join(dir, name)
		r, err := Run(context.Background(), Options{Files: []string{path}, Input: fio.Options{Pool: pool}})
		code, stderr, stdout := exit.CodeOf(err), fmt.Sprint(err), ""
		if r != nil {
			var b strings.Builder
			if err := r.Sections().WriteText(&b); err != nil {
				t.Fatal(err)
			}
			stdout = b.String()
		}
		bad := code != exit.OK && code != exit.No && code != exit.BadData
		base := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		switch kind {
		case "fail":
			// A half stream that decodes to finite numbers of usual size cannot be told.
			bad = bad || code == exit.OK && base != "ccsds_stream_half"
		case "recover":
			bad = bad || code == exit.BadData
		case "read":
			bad = bad || code == exit.BadData || strings.Contains(stdout, "damage:")
		case "meaning":
			want := wantFaults[base]
			bad = bad || want != "" && !strings.Contains(stdout+stderr, want) || want == "" && code != exit.BadData
		}
		if code != exit.OK && !strings.Contains(stderr, path) {
			bad = true
		}
		if bad {
			t.Errorf("%s (%s): exit %d\n%s%s", name, kind, code, stdout, stderr)
		}
	}
}
