// Package experimentfile reads experiment.yaml, the description of a reproducible experiment: data with checksums, variants, seeds,
// test periods and expected scores. Reading and merging are those of package config.
package experimentfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/dirglob"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Experiment is experiment.yaml, a reproducible training: data with checksums, configurations, and
// expected scores.
type Experiment struct {
	Version     int                  `key:"version"`
	Name        string               `key:"name"`
	Title       string               `key:"title"`
	Config      string               `key:"config"`
	Set         []string             `key:"set"`
	Threads     int                  `key:"threads"`
	Seeds       []int                `key:"seeds"`
	Variants    []Variant            `key:"variants"`
	Products    []string             `key:"products"`
	Data        Data                 `key:"data"`
	Origins     Origins              `key:"origins"`
	Quality     Quality              `key:"quality"`
	Scores      []ExpectedScore      `key:"scores"`
	SkillScores []ExpectedSkillScore `key:"skill_scores"`
}

// Variant is one training of an experiment: a name, the configuration keys it overrides, and static fields and a sample store that are not
// those of the others.
type Variant struct {
	Name      string   `key:"name"`
	Set       []string `key:"set"`
	Auxiliary []string `key:"auxiliary"`
	Store     string   `key:"store"`
}

// Data is the data of an experiment: files with checksums, or generated data.
type Data struct {
	Source    string       `key:"source"`
	Folder    config.Path  `key:"folder"`
	Forecasts []string     `key:"forecasts"`
	Analyses  []string     `key:"analyses"`
	Auxiliary []string     `key:"auxiliary"`
	Store     string       `key:"store"`
	Oracle    []string     `key:"oracle"`
	Files     []DataFile   `key:"files"`
	Demo      DemoData     `key:"demo"`
	Optimum   OptimumData  `key:"optimum"`
	Protocol  ProtocolData `key:"protocol"`
}

// DataFile is a data file with its checksum. URL is optional.
type DataFile struct {
	Path   string `key:"path"`
	SHA256 string `key:"sha256"`
	URL    string `key:"url"`
}

// DemoData configures the synthetic data of `ensemble demo`. Zero: its default.
type DemoData struct {
	Inits   int           `key:"inits"`
	Every   time.Duration `key:"interval"`
	Members int           `key:"members"`
	Seed    int           `key:"seed"`
}

// OptimumData configures the benchmark with a known optimum. Zero: its default.
type OptimumData struct {
	Years         int           `key:"years"`
	TestYears     int           `key:"test_years"`
	Every         time.Duration `key:"interval"`
	Members       int           `key:"members"`
	OracleMembers int           `key:"oracle_members"`
	Reforecasts   int           `key:"reforecast_members"`
	Seed          int           `key:"seed"`
}

// ProtocolData configures synthetic data in the layout of a protocol, or of a subset of it.
// Zero: all of the protocol.
type ProtocolData struct {
	Name    string `key:"name"`
	Rows    int    `key:"rows"`
	Columns int    `key:"columns"`
	First   int    `key:"first_year"`
	Last    int    `key:"last_year"`
	Dates   int    `key:"dates"`
	Members int    `key:"members"`
	Seed    int    `key:"seed"`
}

// Quality is the target of a time-to-quality measurement (MLPerf HPC).
type Quality struct {
	Metric    string  `key:"metric"`
	Target    float64 `key:"target"`
	Seeds     []int   `key:"seeds"`
	Epochs    float64 `key:"epochs"`
	Tolerance float64 `key:"tolerance"`
}

// ExpectedScore is a score that a system must reach on the test data, averaged over the seeds.
type ExpectedScore struct {
	Variant   string         `key:"variant"`
	Score     string         `key:"score"`
	System    string         `key:"system"`
	Variable  string         `key:"variable"`
	Level     ensemble.Level `key:"level"`
	Lead      ensemble.Lead  `key:"lead"`
	Value     float64        `key:"value"`
	Tolerance float64        `key:"tolerance"`
	AtMost    float64        `key:"at_most"`
	AtLeast   float64        `key:"at_least"`
}

// ExpectedSkillScore is the smallest skill score of a system relative to a reference, 1 − score /
// reference score, averaged over the seeds. The confidence interval of each seed must be above 0.
type ExpectedSkillScore struct {
	Variant        string         `key:"variant"`
	Score          string         `key:"score"`
	System         string         `key:"system"`
	Reference      string         `key:"reference"`
	ReferenceScore string         `key:"reference_score"`
	Variable       string         `key:"variable"`
	Level          ensemble.Level `key:"level"`
	Lead           ensemble.Lead  `key:"lead"`
	AtLeast        float64        `key:"at_least"`
}

// Sources of the data of an experiment.
const (
	FilesSource    = "files"
	DemoSource     = "demo"
	OptimumSource  = "optimum"
	ProtocolSource = "protocol"
)

// ValidationLoss is the metric of a time-to-quality measurement; lower is better.
const ValidationLoss = "validation_loss"

// MinTimedRuns is the number of timed trainings that a result needs: the mean excludes the fastest
// and the slowest.
const MinTimedRuns = 5

// ExperimentsFolder is the default directory of experiments; each has a subdirectory.
const ExperimentsFolder = "experiments"

// FileName is the name of the configuration file in the directory of an experiment.
const FileName = "experiment.yaml"

// Schema is the schema of experiment.yaml.
var Schema = config.NewFileSchema[Experiment]("experiment", "the directory of an experiment", []schema.Key{
	{Path: "version", Required: true, Check: config.OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "name", Required: true, Example: "gcm",
		Help: "Name of the experiment: lower-case letters, digits and hyphens."},
	{Path: "title", Required: true, Example: "The global model's ensemble",
		Help: "Description in one line."},
	{Path: "config", Required: true, Example: "train.yaml",
		Help: "Training configuration, in the directory of the experiment. data.forecasts, data.analyses and data.auxiliary replace the files named in it."},
	{Path: "set", Example: `["train.networks=1"]`,
		Help: "Overrides of the configuration, key=value as for --set."},
	{Path: "threads", Default: "2", Check: config.Between(1, 4096), Example: "2",
		Help: "Number of threads. It is part of the experiment, because bit-identical results need the same number."},
	{Path: "seeds", Default: "[1]", Check: config.Between(0, 1e9), Example: "[1, 2, 3]",
		Help: "Random seeds; each variant is trained once with each. Expected scores are means over the seeds."},
	{Path: "variants", Example: `[{name: base}, {name: wide, set: ["model.base=16"]}]`,
		Help: "Trainings that differ in some keys. Default: one variant named base."},
	{Path: "variants[].name", Required: true, Example: "wide", Help: "Name of the variant and of its subdirectory."},
	{Path: "variants[].set", Example: `["model.base=16"]`, Help: "Overrides of the configuration, key=value as for --set."},
	{Path: "variants[].auxiliary", Example: `["orography_fine.grib2"]`,
		Help: "Files of static fields of this variant, patterns relative to the data directory. Default: data.auxiliary."},
	{Path: "variants[].store", Example: "store-fine", Help: "Directory of the sample store of this variant, relative to the data directory. Default: data.store."},
	{Path: "products", Example: `["2004-06-04"]`,
		Help: "Initialisations (UTC) that the first training predicts and publishes as NetCDF. The record has the checksums of the files."},

	{Path: "data.source", Default: FilesSource, Check: config.OneOf(FilesSource, DemoSource, OptimumSource, ProtocolSource), Example: "demo",
		Help: "Source of the data: the files of data.files, or synthetic data of the demo, of the benchmark with a known optimum, or of a protocol."},
	{Path: "data.folder", Example: "../../../shared/data/gcm",
		Help: "Directory of the files, if neither --data nor ENSEMBLE_DATA has them."},
	{Path: "data.forecasts", Required: true, Example: `["gcm_fc_*.grib2"]`,
		Help: "Forecast files, patterns relative to the data directory."},
	{Path: "data.analyses", Example: `["gcm_an_*.nc"]`,
		Help: "Analysis files, patterns relative to the data directory."},
	{Path: "data.auxiliary", Example: `["orography.grib2"]`,
		Help: "Files of static fields, patterns relative to the data directory. They replace data.auxiliary.files of trainings that have any."},
	{Path: "data.store", Example: "store",
		Help: "Directory of a sample store, relative to the data directory. It replaces data.store of trainings that have one. Its files have checksums in data.files as all others."},
	{Path: "data.oracle", Example: `["optimum_or_*.grib2"]`,
		Help: "Forecast files of the oracle, an ensemble that no forecast can be better than, for all test initialisations: patterns relative to the data directory. It is scored, and the share of the way to it is computed for all systems."},
	{Path: "data.files", Example: `[{path: gcm_an_1982.nc, sha256: "0f…", url: "https://example.org/gcm_an_1982.nc"}]`,
		Help: "All data files with their checksums. Required for data.source: files; optional for synthetic data, to check the generated files."},
	{Path: "data.files[].path", Required: true, Example: "gcm_an_1982.nc", Help: "Path relative to the data directory."},
	{Path: "data.files[].sha256", Required: true, Example: `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`, Help: "SHA-256 of the file, hexadecimal."},
	{Path: "data.files[].url", Example: "https://example.org/gcm_an_1982.nc", Help: "Address for --fetch; https only."},

	{Path: "data.demo.inits", Default: "0", Check: config.Between(0, 10000), Example: "52", Help: "Number of initialisations; 0: 208."},
	{Path: "data.demo.interval", Default: "0h", Example: "7d", Help: "Interval between initialisations; 0h: seven days."},
	{Path: "data.demo.members", Default: "0", Check: config.Between(0, 255), Example: "10", Help: "Number of members with the control; 0: 10."},
	{Path: "data.demo.seed", Default: "0", Check: config.Between(0, 1e9), Example: "1", Help: "Seed of all random numbers."},

	{Path: "data.optimum.years", Default: "0", Check: config.Between(0, 1000), Example: "3", Help: "Number of years of initialisations, from 2001; 0: 23."},
	{Path: "data.optimum.test_years", Default: "0", Check: config.Between(0, 1000), Example: "1", Help: "Number of the last years that have an oracle; 0: 2."},
	{Path: "data.optimum.interval", Default: "0h", Example: "9d", Help: "Interval between initialisations; 0h: seven days."},
	{Path: "data.optimum.members", Default: "0", Check: config.Between(0, 255), Example: "10", Help: "Number of members of the forecasts with the control; 0: 10."},
	{Path: "data.optimum.oracle_members", Default: "0", Check: config.Between(0, 255), Example: "40", Help: "Number of members of the oracle; 0: 100."},
	{Path: "data.optimum.reforecast_members", Default: "0", Check: config.Between(0, 255), Example: "5", Help: "Number of members of reforecasts: the years before those with an oracle then have fewer members, and all years start on the same days, counted from 1 January; 0: none, all years have the members and one series of dates."},
	{Path: "data.optimum.seed", Default: "0", Check: config.Between(0, 1e9), Example: "1", Help: "Seed of all random numbers."},

	{Path: "data.protocol.name", Example: "ens5-mini", Help: "Name of a built-in protocol."},
	{Path: "data.protocol.rows", Default: "0", Check: config.Between(0, 65535), Example: "20", Help: "Rows of a coarser grid; 0: that of the protocol."},
	{Path: "data.protocol.columns", Default: "0", Check: config.Between(0, 65535), Example: "20", Help: "Columns of a coarser grid; 0: that of the protocol."},
	{Path: "data.protocol.first_year", Default: "0", Check: config.Between(0, 2100), Example: "1998", Help: "First year; 0: that of the protocol."},
	{Path: "data.protocol.last_year", Default: "0", Check: config.Between(0, 2100), Example: "2007", Help: "Last year; 0: that of the protocol."},
	{Path: "data.protocol.dates", Default: "0", Check: config.Between(0, 366), Example: "12", Help: "Number of calendar days, spread over the year; 0: all."},
	{Path: "data.protocol.members", Default: "0", Check: config.Between(0, 255), Example: "5", Help: "Number of members; 0: all."},
	{Path: "data.protocol.seed", Default: "0", Check: config.Between(0, 1e9), Example: "1", Help: "Seed of all random numbers."},

	{Path: "origins.first", Example: "1983-07-01",
		Help: "First initialisation of the first test period of a rolling origin; each variant is trained for each period, on earlier dates. Not set: one test period, that of the configuration."},
	{Path: "origins.periods", Default: "0", Check: config.Between(0, 1000), Example: "4", Help: "Number of test periods, which follow each other."},
	{Path: "origins.test_months", Default: "12", Check: config.Between(1, 1200), Example: "12", Help: "Length of a test period in months of the calendar."},
	{Path: "origins.validation_months", Default: "3", Check: config.Between(1, 1200), Example: "3", Help: "Length of the validation before each test period in months."},
	{Path: "origins.train_months", Default: "0", Check: config.Between(0, 12000), Example: "24",
		Help: "Length of the training before the validation in months; 0: from data.split.train.from of the configuration on."},
	{Path: "origins.gap", Default: "0h", Check: config.AtLeast(0), Example: "5d",
		Help: "Time without initialisations before validation and test; 0h: the longest lead, so that all forecasts are valid before the next part begins. Shorter gaps are refused."},

	{Path: "quality.metric", Default: ValidationLoss, Check: config.OneOf(ValidationLoss), Example: ValidationLoss,
		Help: "Metric of the time-to-quality measurement: the validation loss of an epoch; lower is better."},
	{Path: "quality.target", Default: "0", Check: config.AtLeast(0), Example: "0.52",
		Help: "Target value of the metric, at which the timing of --mllog and --to-quality stops; 0: no target."},
	{Path: "quality.seeds", Check: config.Between(0, 1e9), Example: "[1, 2, 3, 4, 5]",
		Help: "Seeds of the trainings that --to-quality measures. Default: seeds. A result needs five."},
	{Path: "quality.epochs", Default: "0", Check: config.AtLeast(0), Example: "24",
		Help: "Expected number of epochs to the target: the mean over the seeds without the smallest and the largest; 0: not checked."},
	{Path: "quality.tolerance", Default: "0", Check: config.AtLeast(0), Example: "5",
		Help: "Largest allowed difference from quality.epochs."},

	{Path: "scores", Example: "[{score: crps_family, variable: t, level: 850hPa, lead: 96h, value: 0.657, tolerance: 0.01}]",
		Help: "Expected scores on the test data, for the whole area and all seasons."},
	{Path: "scores[].variant", Default: BaseVariant, Example: "wide", Help: "Name of the variant."},
	{Path: "scores[].score", Required: true, Example: "crps_family", Help: "ID of the score, as in scores.json."},
	{Path: "scores[].system", Default: "network", Example: "emos_grid", Help: "Forecast system, as in scores.json."},
	{Path: "scores[].variable", Required: true, Example: "t", Help: "Target variable."},
	{Path: "scores[].level", Required: true, Example: "850hPa", Help: "Level of the target, or single."},
	{Path: "scores[].lead", Required: true, Check: config.AtLeast(0), Example: "96h", Help: "Lead of the target."},
	{Path: "scores[].value", Default: "0", Example: "0.657", Help: "Expected score, in the SI unit of the variable."},
	{Path: "scores[].tolerance", Default: "0", Check: config.AtLeast(0), Example: "0.01",
		Help: "Largest allowed difference from value, in the same unit; 0: value is not checked."},
	{Path: "scores[].at_most", Default: "0", Check: config.AtLeast(0), Example: "0.75", Help: "Upper bound of the score; 0: none."},
	{Path: "scores[].at_least", Default: "0", Check: config.AtLeast(0), Example: "0.9", Help: "Lower bound of the score; 0: none."},

	{Path: "skill_scores", Example: "[{score: crps_family, reference: raw10, reference_score: crps_plain, variable: t, level: 850hPa, lead: 96h, at_least: 0.15}]",
		Help: "Expected skill scores, 1 - score/reference score; the confidence interval of each seed must be above 0."},
	{Path: "skill_scores[].variant", Default: BaseVariant, Example: "wide", Help: "Name of the variant."},
	{Path: "skill_scores[].score", Required: true, Example: "crps_family", Help: "ID of the score."},
	{Path: "skill_scores[].system", Default: "network", Example: "network", Help: "Forecast system, as in scores.json."},
	{Path: "skill_scores[].reference", Required: true, Example: "raw10", Help: "Reference system."},
	{Path: "skill_scores[].reference_score", Example: "crps_plain", Help: "ID of the score of the reference. Default: score."},
	{Path: "skill_scores[].variable", Required: true, Example: "t", Help: "Target variable."},
	{Path: "skill_scores[].level", Required: true, Example: "850hPa", Help: "Level of the target, or single."},
	{Path: "skill_scores[].lead", Required: true, Check: config.AtLeast(0), Example: "96h", Help: "Lead of the target."},
	{Path: "skill_scores[].at_least", Default: "0", Check: config.AtLeast(0), Example: "0.15", Help: "Lower bound of the skill score."},
})

// BaseVariant is the name of the only variant of an experiment without variants.
const BaseVariant = "base"

// Config is a loaded experiment.
type Config struct {
	Experiment
	Path string // of the file, experiment.yaml or another name
	*config.Loaded
}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	digest      = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsName reports whether a text can name an experiment or a variant: lower-case letters, digits, hyphens.
func IsName(s string) bool { return namePattern.MatchString(s) }

// AuxiliaryOf returns the static fields of a variant; nil: those of the configuration, if it has none.
func (c *Config) AuxiliaryOf(v Variant) []string {
	if v.Auxiliary != nil {
		return v.Auxiliary
	}
	return c.Data.Auxiliary
}

// StoreOf returns the sample store of a variant; "": none.
func (c *Config) StoreOf(v Variant) string { return cmp.Or(v.Store, c.Data.Store) }

// Dir is the directory of the experiment, in which its configuration is.
func (c *Config) Dir() string { return filepath.Dir(c.Path) }

// Load loads an experiment from its directory, or from the file itself. Environment
// variables have no effect.
//
// Errors: exit 64 with all faults, each with its position and a fix.
func Load(path string) (*Config, error) {
	c, err := read(path)
	if err != nil {
		return nil, err
	}
	return c, config.JoinFaults(append(c.check(), c.checkExpected()...))
}

// LoadDraft is Load for an experiment whose results are not known yet: expected scores and
// the checksums of the data may be missing.
func LoadDraft(path string) (*Config, error) {
	c, err := read(path)
	if err != nil {
		return nil, err
	}
	return c, config.JoinFaults(c.check())
}

// read reads an experiment without checking it.
func read(path string) (*Config, error) {
	if filepath.Ext(path) != ".yaml" {
		path = filepath.Join(path, FileName)
	}
	if _, err := filesystem.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(path)
	}
	e, err := config.Load(Schema, config.Sources{Files: []string{path}})
	if err != nil {
		return nil, err
	}
	c := &Config{Loaded: e, Path: path}
	e.Fill(&c.Experiment)
	if c.Variants == nil {
		c.Variants = []Variant{{Name: BaseVariant}}
	}
	return c, nil
}

// notFound returns the error for a missing experiment.yaml. It suggests experiments below its
// directory, and similar names in the parent directory and in ExperimentsFolder.
func notFound(path string) error {
	dir := filepath.Dir(path)
	e := &exit.Error{Code: exit.Usage, What: "no experiment in " + dir, At: dir, Why: filepath.Base(path) + " is missing", Fix: "give the directory of an experiment; `ensemble experiment list DIR` lists them"}
	var names, folders []string
	for _, root := range []string{dir, filepath.Dir(dir), ExperimentsFolder} {
		below, _ := dirglob.In(root, "*/"+FileName) // the pattern is valid
		for _, p := range below {
			folders = append(folders, filepath.Dir(p))
			names = append(names, filepath.Base(filepath.Dir(p)))
		}
		if root == dir && folders != nil {
			e.Fix = "give one of " + humanise.List(folders)
			return e
		}
	}
	if near := nearest.Find(filepath.Base(dir), names); near != "" {
		e.Fix = "did you mean `" + folders[slices.Index(names, near)] + "`?"
	}
	return e
}

// check checks names, seeds, variants and expected scores.
func (c *Config) check() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	if !IsName(c.Name) {
		add("name", fmt.Sprintf("invalid name %q of an experiment", c.Name), "it is the name of a directory", "use lower-case letters, digits and hyphens")
	}
	if !filepath.IsLocal(c.Config) || filepath.Base(c.Config) != c.Config {
		add("config", fmt.Sprintf("%q is not in the directory of the experiment", c.Config), "a record includes all files of the experiment", "move it there")
	}
	for _, list := range []struct {
		key   string
		seeds []int
	}{{"seeds", c.Seeds}, {"quality.seeds", c.Quality.Seeds}} {
		for i, s := range list.seeds {
			if slices.Contains(list.seeds[:i], s) {
				add(list.key, fmt.Sprintf("seed %d is listed twice", s), "the same training would count twice", "list each seed once")
			}
		}
	}
	faults = append(faults, c.checkOrigins()...)
	faults = append(faults, c.checkQuality()...)
	for i, v := range c.Variants {
		switch {
		case !IsName(v.Name):
			add("variants", fmt.Sprintf("invalid name %q of a variant", v.Name), "it is the name of a directory", "use lower-case letters, digits and hyphens")
		case slices.ContainsFunc(c.Variants[:i], func(w Variant) bool { return w.Name == v.Name }):
			add("variants", fmt.Sprintf("duplicate variant %s", v.Name), "", "give each variant a unique name")
		}
	}
	for _, text := range c.Products {
		if _, err := config.ParseDate(text); err != nil {
			add("products", fmt.Sprintf("invalid initialisation %q", text), err.Error(), "write it as 2004-06-04, or 2004-06-04T12:00:00Z")
		}
	}
	faults = append(faults, c.checkData()...)
	known := func(at, variant string) {
		if !slices.ContainsFunc(c.Variants, func(v Variant) bool { return v.Name == variant }) {
			add(at, fmt.Sprintf("unknown variant %q", variant), "", "use a name from variants")
		}
	}
	for _, s := range c.Scores {
		known("scores", s.Variant)
		if s.Tolerance == 0 && s.AtMost == 0 && s.AtLeast == 0 {
			add("scores", fmt.Sprintf("score %s of %s at %s has no expected value", s.Score, s.Variable, s.Level), "it has neither a tolerance nor a bound", "add `tolerance`, `at_most` or `at_least`")
		}
	}
	for _, g := range c.SkillScores {
		known("skill_scores", g.Variant)
	}
	return faults
}

// checkExpected checks that the experiment states its data and results.
func (c *Config) checkExpected() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	if c.Scores == nil && c.SkillScores == nil {
		add("scores", "the experiment has no expected scores", "it could not fail", "add scores with tolerances, or let `ensemble experiment record` write them")
	}
	if c.Data.Source == FilesSource && c.Data.Files == nil {
		add("data.files", "data.files is missing", "results are reproducible only with known data", "list the files with the checksums that `sha256sum` prints, or let `ensemble experiment record` do it")
	}
	return faults
}

// TimedSeeds returns the seeds of the time-to-quality measurement.
func (c *Experiment) TimedSeeds() []int {
	if c.Quality.Seeds != nil {
		return c.Quality.Seeds
	}
	return c.Seeds
}

// checkQuality checks the section quality.
func (c *Config) checkQuality() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	q := &c.Quality
	if q.Target == 0 && (q.Seeds != nil || q.Epochs > 0 || q.Tolerance > 0) {
		add("quality.target", "quality.target is missing", "other keys of quality are set", "add quality.target, a validation loss")
	}
	if (q.Epochs > 0) != (q.Tolerance > 0) {
		add("quality.epochs", "quality.epochs and quality.tolerance must be given together", "", "give both, or neither")
	}
	if n := len(c.TimedSeeds()); q.Epochs > 0 && n < MinTimedRuns {
		add("quality.seeds", fmt.Sprintf("quality.epochs with %d seeds", n), fmt.Sprintf("the mean without smallest and largest needs %d", MinTimedRuns), "add seeds")
	}
	return faults
}

// checkData checks the section data.
func (c *Config) checkData() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	d := &c.Data
	patterns := func(key string, names []string) {
		for _, p := range names {
			if _, err := filepath.Match(p, ""); !filepath.IsLocal(p) || err != nil {
				add(key, fmt.Sprintf("invalid pattern %q", p), "want a pattern within the data directory", "write it relative to data.folder")
			}
		}
	}
	store := func(key, dir string) {
		if dir != "" && !filepath.IsLocal(dir) {
			add(key, fmt.Sprintf("invalid directory %q", dir), "want one within the data directory", "write it relative to data.folder")
		}
	}
	patterns("data.forecasts", d.Forecasts)
	patterns("data.analyses", d.Analyses)
	patterns("data.auxiliary", d.Auxiliary)
	patterns("data.oracle", d.Oracle)
	store("data.store", d.Store)
	for _, v := range c.Variants {
		patterns("variants", v.Auxiliary)
		store("variants", v.Store)
	}
	for i, f := range d.Files {
		at := "data.files"
		switch {
		case !filepath.IsLocal(f.Path):
			add(at, fmt.Sprintf("path %q is not within the data directory", f.Path), "", "write it relative to data.folder")
		case slices.ContainsFunc(d.Files[:i], func(g DataFile) bool { return g.Path == f.Path }):
			add(at, fmt.Sprintf("file %s is listed twice", f.Path), "", "remove one of the two")
		}
		if !digest.MatchString(f.SHA256) {
			add(at, fmt.Sprintf("invalid SHA-256 %q", f.SHA256), "of "+f.Path, "write 64 hexadecimal digits, as sha256sum prints them")
		}
		if f.URL != "" {
			if err := checkURL(f.URL); err != nil {
				add(at, fmt.Sprintf("invalid URL %q", f.URL), err.Error(), "give a URL that begins with https://")
			}
		}
	}
	switch {
	case d.Source == ProtocolSource && !slices.Contains(protocolfile.Names(), d.Protocol.Name):
		add("data.protocol.name", fmt.Sprintf("unknown protocol %q", d.Protocol.Name), "", "give one of "+strings.Join(protocolfile.Names(), ", "))
	case d.Oracle != nil && c.Origins.Periods > 0:
		add("data.oracle", "an oracle with several test periods", "its scores are those of one test period", "remove origins, or data.oracle")
	case d.Oracle != nil && d.Analyses == nil:
		add("data.oracle", "an oracle without analyses", "it is scored against those of data.analyses", "add data.analyses")
	case d.Source != FilesSource && d.Folder != "":
		add("data.folder", "data.folder with synthetic data", "data.source is "+d.Source, "remove data.folder")
	}
	return faults
}

// checkURL refuses URLs other than https, and those with credentials.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" || u.Host == "":
		return errors.New("want https")
	case u.User != nil:
		return errors.New("a URL must not contain credentials")
	}
	return nil
}
