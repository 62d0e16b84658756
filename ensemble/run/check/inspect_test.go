package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// inspected is the contract of the JSON object, written down again.
type inspected struct {
	Schema, Command, Version, Status string
	ExitCode                         int `json:"exit_code"`
	Messages, Used, Unused           int
	Fields                           []struct {
		File, Variable, Unit, Level, Init, Lead, Valid string
		Message                                        int
		Member                                         *int
		Min, Mean, Max                                 *float64
	}
	Error *struct{ Code, What, At string }
}

// inspect returns the answer of the command as JSON and as text.
func inspect(t *testing.T, o InspectOptions) (inspected, string, error) {
	t.Helper()
	testdecoder.Path(t)
	i, err := Inspect(context.Background(), o)
	var b, text bytes.Buffer
	if err := errors.Join(answer.New("inspect", "9", err).Write(&b, i.Data), i.Sections().WriteText(&text)); err != nil {
		t.Fatal(err)
	}
	var out inspected
	d := json.NewDecoder(bytes.NewReader(b.Bytes()))
	if jerr := d.Decode(&out); jerr != nil || d.More() {
		t.Fatalf("not one JSON object: %v\n%.500s", jerr, b.String())
	}
	return out, text.String(), err
}

func TestInspectJSON(t *testing.T) {
	path := filepath.Join(testdata.Dir(t, "era5-eda"), "era5-eda_z-t_20170101T00-20170102T00.grib")
	out, _, err := inspect(t, InspectOptions{Files: []string{path}, Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	if out.Schema != "ensemble.inspect/1" || out.Command != "inspect" || out.Version != "9" || out.Status != "ok" || out.ExitCode != 0 || out.Messages != 120 || out.Used != 120 || out.Unused != 0 || len(out.Fields) != 120 {
		t.Errorf("envelope %+v", out)
	}
	f := out.Fields[1] // minimum and maximum from expected.json
	if f.Message != 2 || f.Variable != "z" || f.Unit != "m2 s-2" || f.Level != "500hPa" || *f.Member != 1 || f.Lead != "0h" ||
		f.Init != "2017-01-01T00:00:00Z" || f.Valid != f.Init || math.Abs(*f.Min-46739.3555) > 0.01 || math.Abs(*f.Max-58130.1055) > 0.01 || math.Abs(*f.Mean-53995.4084) > 0.01 {
		t.Errorf("second field %+v", f)
	}
}

// Every message is counted as used or unused.
func TestInspectAccountsForAllMessages(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(testdata.Dir(t, "formats"), "grib?", "*"))
	if err != nil || len(paths) < 50 {
		t.Fatal(paths, err)
	}
	out, _, err := inspect(t, InspectOptions{Files: paths})
	if err != nil {
		t.Fatal(err)
	}
	if out.Used+out.Unused != out.Messages || out.Unused == 0 {
		t.Errorf("%d messages, %d used, %d unused", out.Messages, out.Used, out.Unused)
	}
}

func TestInspectShowsSoundPartsOfDamagedFiles(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata.Dir(t, "formats"), "grib2", "same_field_simple.grib2"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.grib2")
	if err := os.WriteFile(path, append(append([]byte(nil), b...), b[:len(b)/2]...), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _, err := inspect(t, InspectOptions{Files: []string{path}})
	if exit.CodeOf(err) != exit.BadData || out.Status != "failed" || out.ExitCode != 65 || out.Messages != 2 || out.Used != 1 || out.Error == nil || !strings.Contains(out.Error.At, "message 2") {
		t.Errorf("%+v, error %v", out, err)
	}
	_, text, err := inspect(t, InspectOptions{Files: []string{path}, Stats: true})
	if exit.CodeOf(err) != exit.BadData || !strings.Contains(text, "2 messages: 1 used, 1 unused") || !strings.Contains(text, "damaged") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestInspectMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent.grib")
	out, _, err := inspect(t, InspectOptions{Files: []string{path}})
	if exit.CodeOf(err) != exit.NotYet || out.ExitCode != 66 || out.Status != "failed" || out.Error == nil || out.Error.Code != "E066" {
		t.Errorf("%+v, error %v", out, err)
	}
}
