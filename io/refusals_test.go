package fio

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// typed matches a command that a message proposes.
var typed = regexp.MustCompile("`((?:ncatted|gunzip|bunzip2|unzip|tar) [^`]+)`")

// nothingToType lists the refusals of testdata/field that propose no command, with the reason.
var nothingToType = map[string]string{
	"cell_methods_with_members":   "the method or the members are wrong: only the writer knows which",
	"filter_zstd":                 "the plugin has to be installed; the folder differs",
	"filter_of_coordinate":        "the plugin has to be installed; the folder differs",
	"grib1_unit_undefined":        "the unit of time has to be corrected where the message was encoded",
	"grib2_unit_of_edition1":      "the unit of time has to be corrected where the message was encoded",
	"grid_moving":                 "there is no grid",
	"lead_without_coordinate":     "the leads are unknown",
	"name_contradicts_level":      "the name or the level is wrong: only the writer knows which",
	"packing_range_three_numbers": "the range is unknown",
	"packing_scale_word":          "the scale is unknown",
	"standard_name_modifier":      "its values are no quantity",
	"static_not_asked":            "a key of the configuration names static fields",
	"time_climatology":            "its times are no times of a forecast",
	"time_days_float_coarse":      "the times are lost",
	"time_in_attributes":          "a coordinate has to be added, for which there is no short command",
	"time_init_elsewhere":         "the coordinate has another dimension",
	"time_lead_months_half":       "valid times have to be added, for which there is no short command",
	"time_lead_months_last_day":   "valid times have to be added, for which there is no short command",
	"units_angle_unknown":         "the unit is unknown",
	"units_height_unknown":        "the unit is unknown",
	"units_member_unknown":        "the unit is unknown",
	"units_pressure_ambiguous":    "the unit is unknown",
	"units_radian_unstated":       "the unit is one of two that are named",
	"zarr3_absent_chunk":          "a key of the configuration accepts absent chunks",
}

// TestFixesOfRefusals: the command that a refusal proposes, typed as printed, makes the file readable or leads to
// another reason. Refusals without a command are listed with the reason. Warnings that propose one are followed too.
func TestFixesOfRefusals(t *testing.T) {
	folders, err := filepath.Glob("testdata/field/*/expected.json")
	if err != nil || len(folders) == 0 {
		t.Fatal("no cases", err)
	}
	followed := 0
	for _, path := range folders {
		dir := filepath.Dir(path)
		name := filepath.Base(dir)
		var want fieldCase
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		commands := 0
		for _, file := range caseFiles(t, dir) {
			copied := filepath.Join(t.TempDir(), filepath.Base(file))
			if err := os.CopyFS(filepath.Dir(copied), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			said := messagesOf(t, copied, want)
			for _, m := range said {
				for _, c := range typed.FindAllStringSubmatch(m, -1) {
					commands++
					followed++
					follow(t, c[1], copied, m, want)
				}
			}
		}
		_, listed := nothingToType[name]
		if want.Refusal != nil && commands == 0 && !listed {
			t.Errorf("%s: the refusal proposes nothing to type, and nothingToType has no reason", name)
		}
		if listed && (commands > 0 || want.Refusal == nil) {
			t.Errorf("%s: nothingToType lists it, and it has %d commands", name, commands)
		}
	}
	if followed < 6 {
		t.Errorf("only %d commands were followed", followed)
	}
}

// caseFiles lists the files of a folder of testdata/field.
func caseFiles(t *testing.T, dir string) (files []string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Name() != "expected.json" && n.Name() != "make.py" {
			files = append(files, filepath.Join(dir, n.Name()))
		}
	}
	return files
}

// messagesOf returns the error, the reasons of unused parts, and the warnings of a file.
func messagesOf(t *testing.T, path string, o fieldCase) (all []string) {
	in, err := Open(context.Background(), []string{path}, Options{Pool: children(t), Sparse: o.Sparse, Static: o.Static})
	if err != nil {
		return []string{explain(err)}
	}
	defer in.Close()
	for _, u := range in.Catalogue().Unused {
		all = append(all, u.Reason)
	}
	for _, e := range in.Catalogue().Entries {
		if _, err := in.ReadOne(context.Background(), e); err != nil && exit.CodeOf(err) != exit.OK {
			all = append(all, explain(err))
		}
	}
	return append(all, in.Catalogue().Warnings...)
}

// follow types a command beside a file and compares what is read then.
func follow(t *testing.T, command, path, message string, o fieldCase) {
	t.Helper()
	program, _, _ := strings.Cut(command, " ")
	tool, err := exec.LookPath(program)
	if err != nil {
		t.Logf("skipped: no judge: %v", err)
		return
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "FILE", "'"+path+"'"))
	cmd.Dir = filepath.Dir(path)
	before, err := os.ReadDir(cmd.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s (%s): %v: %s", command, tool, err, out)
		return
	}
	// An archive makes other files; the content of the file itself may change.
	results := []string{path}
	if program != "ncatted" {
		results = nil
		after, err := os.ReadDir(cmd.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range after {
			if !slices.ContainsFunc(before, func(o os.DirEntry) bool { return o.Name() == n.Name() }) {
				results = append(results, filepath.Join(cmd.Dir, n.Name()))
			}
		}
	}
	if len(results) == 0 {
		t.Errorf("%s makes no file", command)
	}
	for _, r := range results {
		if again := messagesOf(t, r, o); slices.Contains(again, message) {
			t.Errorf("after %s the message is the same: %s", command, message)
		}
	}
}
