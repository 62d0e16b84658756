package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// studyTrainer trains the variants of a study.
type studyTrainer struct {
	*StudyOptions
	base    *config.TrainConfig
	configs []*config.TrainConfig // of each training
	all     []training
}

// commonKeys are keys that all variants of a study share, with the reasons.
var commonKeys = []struct{ key, why string }{
	{"data.forecasts", "the record of a study lists the files of all variants together"},
	{"data.analyses", "the record of a study lists the files of all variants together"},
	{"train.seed", "all variants are trained with the same seeds, those of --seeds"},
	{"train.threads", "bits depend on threads, and the record of a study has one number of them"},
}

// trainer checks the variants and loads the configurations of all trainings.
//
// Errors: exit 64.
func (o *StudyOptions) trainer() (*studyTrainer, error) {
	t := &studyTrainer{StudyOptions: o}
	var err error
	if t.base, err = config.LoadTrain(o.Config); err != nil {
		return nil, err
	}
	for i, v := range o.Variants { // report all faults before the first training
		if slices.ContainsFunc(o.Variants[:i], func(w Variant) bool { return w.Name == v.Name }) {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("duplicate variant %s", v.Name), At: "--variant", Fix: "give each variant a unique name"}
		}
		for _, set := range v.Set {
			for _, k := range commonKeys {
				if key, _, _ := strings.Cut(set, "="); key == k.key {
					return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("variant %s changes %s", v.Name, key), At: "--variant", Why: k.why, Fix: "set it for all variants, with --set " + set}
				}
			}
		}
	}
	t.all = trainings(t.experiment())
	for _, x := range t.all {
		src := o.Config
		src.Set = slices.Concat(src.Set, x.variant.Set, []string{fmt.Sprintf("train.seed=%d", x.seed)})
		c, err := config.LoadTrain(src)
		if err != nil {
			return nil, err
		}
		t.configs = append(t.configs, c)
	}
	return t, nil
}

// experiment is the study as an experiment, without its data.
func (t *studyTrainer) experiment() *experimentfile.Config {
	e := &experimentfile.Config{}
	for _, v := range t.Variants {
		e.Variants = append(e.Variants, experimentfile.Variant{Name: v.Name, Set: v.Set})
	}
	for k := range t.Seeds {
		e.Seeds = append(e.Seeds, t.base.Train.Train.Seed+k)
	}
	return e
}

// train does all trainings. It returns the experiment that they are, nil if they read files that a record does not
// list.
//
// Errors: those of train.Run and Run.
func (t *studyTrainer) train(ctx context.Context) (*Options, error) {
	for _, c := range t.configs {
		key := otherInput(c)
		if key == "" {
			continue
		}
		if t.Warn != nil {
			t.Warn("no record of this study: " + key + " names files that records do not list")
		}
		for i, x := range t.all {
			if _, err := train.Run(ctx, train.Options{Config: t.configs[i], RunDir: filepath.Join(t.Dir, x.dir()), Resume: "auto", Version: t.Version, Stop: t.Stop, Timings: t.Timings, Progress: t.Progress, Warn: t.Warn}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	x := &Options{Dir: t.Dir, Data: commonFolder(t.inputs()), Version: t.Version, Stop: t.Stop, Timings: t.Timings, Progress: t.Progress, Warn: t.Warn}
	if err := t.writeSources(ctx, x); err != nil {
		return nil, err
	}
	_, err := Run(ctx, *x)
	return x, err
}

// inputs lists the patterns of files and the sample stores that the trainings read.
func (t *studyTrainer) inputs() (all []config.Path) {
	for _, c := range append([]*config.TrainConfig{t.base}, t.configs...) {
		all = slices.Concat(all, c.Data.Forecasts, c.Data.Analyses, c.Data.Auxiliary.Files)
		if c.Data.Store != "" {
			all = append(all, c.Data.Store)
		}
	}
	return all
}

// studyConfig is the configuration beside the experiment.yaml of a study.
const studyConfig = "train.yaml"

// writeSources writes experiment.yaml, with the checksums of the data, and the configuration of the study into its
// directory, and loads them.
func (t *studyTrainer) writeSources(ctx context.Context, x *Options) (err error) {
	if err := filesystem.MkdirAll(t.Dir, 0o777); err != nil {
		return exit.CreateError(t.Dir, err)
	}
	if err := atomicfile.WriteFile(filepath.Join(t.Dir, studyConfig), t.base.YAMLBelow(x.Data)); err != nil {
		return exit.CreateError(t.Dir, err)
	}
	path := filepath.Join(t.Dir, experimentfile.FileName)
	y := sectionEditor{path: path, text: t.text(x.Data)}
	for {
		if err := exit.CreateError(path, atomicfile.WriteFile(path, []byte(y.text))); err != nil {
			return err
		}
		if x.Experiment, err = experimentfile.LoadDraft(t.Dir); err != nil || x.data != nil {
			return err
		}
		if err := x.open(ctx); err != nil {
			return err
		}
		y.replace("data", "files", fileLines(x.data.record.Files))
	}
}

// text is experiment.yaml without checksums of the data, which are in a folder.
func (t *studyTrainer) text(folder string) string {
	var b strings.Builder
	e, d := t.experiment(), &t.base.Data
	seeds := strings.ReplaceAll(fmt.Sprint(e.Seeds), " ", ", ")
	fmt.Fprintf(&b, "version: 1\nname: %s\ntitle: %s\nconfig: %s\nthreads: %d\nseeds: %s\nvariants:\n",
		config.Quote(studyName(t.Dir)), config.Quote(cmp.Or(t.Title, "Variants of a configuration")), studyConfig, cmp.Or(t.base.Train.Train.Threads, runtime.GOMAXPROCS(0)), seeds)
	for k, v := range e.Variants {
		b.WriteString("  - {name: " + config.Quote(v.Name) + t.changes(v, &t.configs[k*len(e.Seeds)].Data, folder) + "}\n")
	}
	b.WriteString("data:\n")
	for _, list := range []struct {
		key   string
		files []config.Path
	}{{"forecasts", d.Forecasts}, {"analyses", d.Analyses}, {"auxiliary", d.Auxiliary.Files}} {
		if list.files != nil {
			fmt.Fprintf(&b, "  %s: %s\n", list.key, quotedBelow(list.files, folder))
		}
	}
	if d.Store != "" {
		fmt.Fprintf(&b, "  store: %s\n", config.Quote(string(d.Store.Below(folder))))
	}
	return b.String()
}

// changes is what a variant with this data changes, as the rest of its line: its files by their places in the folder, since their paths
// are those of this machine.
func (t *studyTrainer) changes(v experimentfile.Variant, d *config.Data, folder string) (text string) {
	set := slices.Clone(v.Set)
	own := func(key string) bool { // a later value replaces it
		n := len(set)
		set = slices.DeleteFunc(set, func(s string) bool { k, _, _ := strings.Cut(s, "="); return k == key })
		return len(set) < n
	}
	if own(auxiliaryKey) {
		text += ", auxiliary: " + quotedBelow(d.Auxiliary.Files, folder)
	}
	if own(storeKey) {
		text += ", store: " + config.Quote(string(d.Store.Below(folder)))
	}
	if len(set) > 0 {
		text = ", set: " + quotedList(set) + text
	}
	return text
}

// quotedBelow formats a YAML list of patterns relative to a folder.
func quotedBelow(files []config.Path, folder string) string {
	below := make([]string, len(files))
	for i, f := range files {
		below[i] = string(f.Below(folder))
	}
	return quotedList(below)
}

// quotedList formats a YAML list of texts.
func quotedList(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// notInName matches what the name of an experiment cannot contain.
var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// studyName is the name of a study: that of its directory, as the name of an experiment.
func studyName(dir string) string {
	if abs, err := filesystem.Absolute("", dir); err == nil {
		dir = abs
	}
	return cmp.Or(strings.Trim(notInName.ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-"), "-"), "study")
}

// commonFolder is the folder that has the files of all patterns, here or in subfolders.
func commonFolder(patterns []config.Path) (folder string) {
	for _, p := range patterns {
		dir := filepath.Dir(string(p))
		for strings.ContainsAny(dir, "*?[") {
			dir = filepath.Dir(dir)
		}
		folder = cmp.Or(folder, dir)
		for folder != dir && !strings.HasPrefix(dir, strings.TrimSuffix(folder, "/")+"/") {
			folder = filepath.Dir(folder)
		}
	}
	return folder
}

// recordStudy records a study whose trainings and tables are finished: with expected scores and tolerances if it has
// enough seeds, else without.
func (o *Options) recordStudy(ctx context.Context) (*Result, error) {
	if len(o.Experiment.Seeds) < minSeeds {
		return Run(ctx, *o)
	}
	return o.expect(ctx)
}

// IsStudy reports whether a directory has the results of a study.
func IsStudy(dir string) bool {
	_, err := filesystem.Stat(filepath.Join(dir, experimentFile))
	return err == nil
}

// studyOutputs returns the checksums of the tables of a study; nil if a directory is none.
func studyOutputs(dir string) ([]manifest.File, error) {
	if !IsStudy(dir) {
		return nil, nil
	}
	files, err := manifest.SumBelow(dir, studyFiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exit.Error{Code: exit.NotYet, What: "a table of the study is missing", At: dir, Fix: "repeat the command that made it", Err: err}
	}
	return files, err
}
