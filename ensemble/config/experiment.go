package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Experiment is a training that can be repeated: its data, what is trained, and the scores that
// are expected of it. experiment.yaml.
type Experiment struct {
	Version     int                  `key:"version"`
	Name        string               `key:"name"`
	Title       string               `key:"title"`
	Config      string               `key:"config"`
	Set         []string             `key:"set"`
	Threads     int                  `key:"threads"`
	Seeds       []int                `key:"seeds"`
	Variants    []ExperimentVariant  `key:"variants"`
	Products    []string             `key:"products"`
	Data        ExperimentData       `key:"data"`
	Quality     Quality              `key:"quality"`
	Scores      []ExpectedScore      `key:"scores"`
	SkillScores []ExpectedSkillScore `key:"gains"`
}

// ExperimentVariant is one training of an experiment, and what it changes in the configuration.
type ExperimentVariant struct {
	Name string   `key:"name"`
	Set  []string `key:"set"`
}

// ExperimentData is what an experiment reads.
type ExperimentData struct {
	Source    string           `key:"from"`
	Folder    Path             `key:"folder"`
	Forecasts []string         `key:"forecasts"`
	Analyses  []string         `key:"analyses"`
	Files     []ExperimentFile `key:"files"`
	Demo      DemoData         `key:"demo"`
	Protocol  ProtocolData     `key:"protocol"`
}

// ExperimentFile is a file whose content is known.
type ExperimentFile struct {
	Path   string `key:"path"`
	SHA256 string `key:"sha256"`
	URL    string `key:"url"`
}

// DemoData is what of the program's own weather is made. 0 has the default of `ensemble demo`.
type DemoData struct {
	Inits   int           `key:"starts"`
	Every   time.Duration `key:"every"`
	Members int           `key:"members"`
	Seed    int           `key:"seed"`
}

// ProtocolData is an archive of invented weather in the layout of a protocol, and what of it is made.
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

// Quality is what a training is timed to reach.
type Quality struct {
	Metric    string  `key:"metric"`
	Target    float64 `key:"target"`
	Seeds     []int   `key:"seeds"`
	Epochs    float64 `key:"epochs"`
	Tolerance float64 `key:"tolerance"`
}

// ExpectedScore is a score of the network that an experiment reaches: on the test starts, the mean of its seeds.
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

// ExpectedSkillScore is what a system gains over a reference at least: the mean of the seeds, of each with an
// interval above 0.
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

// Where the data of an experiment come from.
const (
	FilesSource    = "files"
	DemoSource     = "demo"
	ProtocolSource = "protocol"
)

// ValidationLoss is the metric of a time to quality: the loss on the validation starts, lower is better.
const ValidationLoss = "validation_loss"

// MinTimedRuns are the trainings that a time to quality takes.
const MinTimedRuns = 5

// ExperimentsFolder is where experiments lie, each in a folder, if nothing else is said.
const ExperimentsFolder = "experiments"

// ExperimentFileName is the name of the file in the folder of an experiment.
const ExperimentFileName = "experiment.yaml"

// ExperimentSchema describes experiment.yaml.
var ExperimentSchema = newFileSchema[Experiment]("experiment", "the folder of an experiment", []Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "name", Required: true, Example: "gcm",
		Help: "Name of the experiment: small letters, digits and hyphens."},
	{Path: "title", Required: true, Example: "The global model's ensemble",
		Help: "What it shows, in a line."},
	{Path: "config", Required: true, Example: "train.yaml",
		Help: "Configuration of the training, in the folder of the experiment. The files that it names are replaced by data.forecasts and data.analyses."},
	{Path: "set", Example: `["train.networks=1"]`,
		Help: "What is changed in the configuration, as after --set."},
	{Path: "threads", Default: "2", Check: Between(1, 4096), Example: "2",
		Help: "Threads of the training. The bits of a result depend on their number, so it is part of the experiment."},
	{Path: "seeds", Default: "[1]", Check: Between(0, 1e9), Example: "[1, 2, 3]",
		Help: "Seeds: each variant is trained once with each. Expected scores are those of their mean."},
	{Path: "variants", Example: `[{name: base}, {name: wide, set: ["model.base=16"]}]`,
		Help: "Trainings that differ in some keys. Without any there is one, base."},
	{Path: "variants[].name", Required: true, Example: "wide", Help: "Name of the variant, which is that of its folder."},
	{Path: "variants[].set", Example: `["model.base=16"]`, Help: "What it changes in the configuration, as after --set."},
	{Path: "products", Example: `["2004-06-04"]`,
		Help: "Starts that are predicted and published as NetCDF by the first training, in UTC. Their files have digests in the record."},

	{Path: "data.from", Default: FilesSource, Check: OneOf(FilesSource, DemoSource, ProtocolSource), Example: "demo",
		Help: "files: those of data.files. demo and protocol: the program makes them itself."},
	{Path: "data.folder", Example: "../../../shared/data/gcm",
		Help: "Folder of the files, where neither --data nor ENSEMBLE_DATA has them."},
	{Path: "data.forecasts", Required: true, Example: `["gcm_fc_*.grib2"]`,
		Help: "Forecast files, below the folder of the data."},
	{Path: "data.analyses", Example: `["gcm_an_*.nc"]`,
		Help: "Files of the analyses, below the folder of the data."},
	{Path: "data.files", Example: `[{path: gcm_an_1982.nc, sha256: "0f…", url: "https://example.org/gcm_an_1982.nc"}]`,
		Help: "All files of the data, with their digests. data.from: files needs them; of data that the program makes they say what it must make."},
	{Path: "data.files[].path", Required: true, Example: "gcm_an_1982.nc", Help: "Path below the folder of the data."},
	{Path: "data.files[].sha256", Required: true, Example: `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`, Help: "SHA-256 of the content, hexadecimal."},
	{Path: "data.files[].url", Example: "https://example.org/gcm_an_1982.nc", Help: "Where --fetch gets it: https and nothing else."},

	{Path: "data.demo.starts", Default: "0", Check: Between(0, 10000), Example: "52", Help: "Starts; 0 has the default, 208."},
	{Path: "data.demo.every", Default: "0h", Example: "7d", Help: "Time between them; 0h has the default, seven days."},
	{Path: "data.demo.members", Default: "0", Check: Between(0, 255), Example: "10", Help: "Members, with the control; 0 has the default, 10."},
	{Path: "data.demo.seed", Default: "0", Check: Between(0, 1e9), Example: "1", Help: "Start of all random numbers of the weather."},

	{Path: "data.protocol.name", Example: "ens5-mini", Help: "Protocol that is built in."},
	{Path: "data.protocol.rows", Default: "0", Check: Between(0, 65535), Example: "20", Help: "Rows of a coarser grid; 0 has that of the protocol."},
	{Path: "data.protocol.columns", Default: "0", Check: Between(0, 65535), Example: "20", Help: "Columns of a coarser grid; 0 has that of the protocol."},
	{Path: "data.protocol.first_year", Default: "0", Check: Between(0, 2100), Example: "1998", Help: "First of the years; 0 has that of the protocol."},
	{Path: "data.protocol.last_year", Default: "0", Check: Between(0, 2100), Example: "2007", Help: "Last of the years; 0 has that of the protocol."},
	{Path: "data.protocol.dates", Default: "0", Check: Between(0, 366), Example: "12", Help: "So many of the calendar days, spread over the year; 0 has all."},
	{Path: "data.protocol.members", Default: "0", Check: Between(0, 255), Example: "5", Help: "So many members; 0 has all."},
	{Path: "data.protocol.seed", Default: "0", Check: Between(0, 1e9), Example: "1", Help: "Start of all random numbers of the weather."},

	{Path: "quality.metric", Default: ValidationLoss, Check: OneOf(ValidationLoss), Example: ValidationLoss,
		Help: "What a training is timed to reach, of each epoch: the loss on the validation starts. Lower is better."},
	{Path: "quality.target", Default: "0", Check: AtLeast(0), Example: "0.52",
		Help: "The metric at which the clock of --mllog and --to-quality stops; 0: there is no target, and no time to it."},
	{Path: "quality.seeds", Check: Between(0, 1e9), Example: "[1, 2, 3, 4, 5]",
		Help: "Seeds of the trainings that --to-quality times; without any those of seeds. A result takes five."},
	{Path: "quality.epochs", Default: "0", Check: AtLeast(0), Example: "24",
		Help: "Epochs to the target that were reached: the mean over the seeds without the fewest and the most. 0: they are not compared."},
	{Path: "quality.tolerance", Default: "0", Check: AtLeast(0), Example: "5",
		Help: "Largest difference to quality.epochs."},

	{Path: "scores", Example: "[{score: crps_family, variable: t, level: 850hPa, lead: 96h, value: 0.657, tolerance: 0.01}]",
		Help: "Scores that are expected on the test starts, over the whole area and all seasons."},
	{Path: "scores[].variant", Default: BaseVariant, Example: "wide", Help: "The variant."},
	{Path: "scores[].score", Required: true, Example: "crps_family", Help: "Id of the score, as in scores.json."},
	{Path: "scores[].system", Default: "network", Example: "emos_grid", Help: "What is scored."},
	{Path: "scores[].variable", Required: true, Example: "t", Help: "Variable of the target."},
	{Path: "scores[].level", Required: true, Example: "850hPa", Help: "Its level, or single."},
	{Path: "scores[].lead", Required: true, Check: AtLeast(0), Example: "96h", Help: "Its lead."},
	{Path: "scores[].value", Default: "0", Example: "0.657", Help: "The score that was reached, in the unit of the variable (SI)."},
	{Path: "scores[].tolerance", Default: "0", Check: AtLeast(0), Example: "0.01",
		Help: "Largest difference to the value on another machine, in its unit; 0: the value is not compared."},
	{Path: "scores[].at_most", Default: "0", Check: AtLeast(0), Example: "0.75", Help: "The score must not be above this; 0 sets no bound."},
	{Path: "scores[].at_least", Default: "0", Check: AtLeast(0), Example: "0.9", Help: "The score must not be below this; 0 sets no bound."},

	{Path: "gains", Example: "[{score: crps_family, reference: raw10, reference_score: crps_plain, variable: t, level: 850hPa, lead: 96h, at_least: 0.15}]",
		Help: "Gains over references that are expected, relative; the interval of every seed must lie above 0."},
	{Path: "gains[].variant", Default: BaseVariant, Example: "wide", Help: "The variant."},
	{Path: "gains[].score", Required: true, Example: "crps_family", Help: "Id of the score."},
	{Path: "gains[].system", Default: "network", Example: "network", Help: "What is scored."},
	{Path: "gains[].reference", Required: true, Example: "raw10", Help: "What it is compared with."},
	{Path: "gains[].reference_score", Example: "crps_plain", Help: "Id of the reference's score, where it is another one."},
	{Path: "gains[].variable", Required: true, Example: "t", Help: "Variable of the target."},
	{Path: "gains[].level", Required: true, Example: "850hPa", Help: "Its level, or single."},
	{Path: "gains[].lead", Required: true, Check: AtLeast(0), Example: "96h", Help: "Its lead."},
	{Path: "gains[].at_least", Default: "0", Check: AtLeast(0), Example: "0.15", Help: "The gain must not be below this."},
})

// BaseVariant is the variant of an experiment that names none.
const BaseVariant = "base"

// ExperimentConfig is a loaded experiment.
type ExperimentConfig struct {
	Experiment
	Dir string // folder of the file
	*loaded
}

var (
	experimentName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	digest         = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// LoadExperiment reads an experiment from its folder, or the file in it. The environment does not change it.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy.
func LoadExperiment(path string) (*ExperimentConfig, error) {
	if filepath.Ext(path) != ".yaml" {
		path = filepath.Join(path, ExperimentFileName)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, experimentNotFound(path)
	}
	e, err := load(ExperimentSchema, Sources{Files: []string{path}})
	if err != nil {
		return nil, err
	}
	c := &ExperimentConfig{loaded: e, Dir: filepath.Dir(path)}
	e.fill(&c.Experiment)
	if c.Variants == nil {
		c.Variants = []ExperimentVariant{{Name: BaseVariant}}
	}
	return c, joinFaults(c.check())
}

// experimentNotFound says that a file is not there, and which experiments are: below its folder, beside it, or in the folder
// where they lie by default.
func experimentNotFound(path string) error {
	dir := filepath.Dir(path)
	e := &exit.Error{Code: exit.Usage, What: "no experiment is here", At: dir, Why: "it has no " + filepath.Base(path), Fix: "give the folder of an experiment; `ensemble experiment list DIR` lists those in a folder"}
	var names, folders []string
	for _, root := range []string{dir, filepath.Dir(dir), ExperimentsFolder} {
		below, _ := filepath.Glob(filepath.Join(root, "*", ExperimentFileName)) // fails for brackets in root: no help then
		for _, p := range below {
			folders = append(folders, filepath.Dir(p))
			names = append(names, filepath.Base(filepath.Dir(p)))
		}
		if root == dir && folders != nil {
			e.Fix = "give one of them: " + humanise.List(folders)
			return e
		}
	}
	if near := nearest.Find(filepath.Base(dir), names); near != "" {
		e.Fix = "did you mean `" + folders[slices.Index(names, near)] + "`?"
	}
	return e
}

// check applies the rules between keys.
func (c *ExperimentConfig) check() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	if !experimentName.MatchString(c.Name) {
		add("name", fmt.Sprintf("%q cannot be the name of an experiment", c.Name), "it names folders", "use small letters, digits and hyphens")
	}
	if !filepath.IsLocal(c.Config) || filepath.Base(c.Config) != c.Config {
		add("config", fmt.Sprintf("%q does not lie in the folder of the experiment", c.Config), "a record keeps what an experiment is made of", "move it there")
	}
	for _, list := range []struct {
		key   string
		seeds []int
	}{{"seeds", c.Seeds}, {"quality.seeds", c.Quality.Seeds}} {
		for i, s := range list.seeds {
			if slices.Contains(list.seeds[:i], s) {
				add(list.key, fmt.Sprintf("seed %d is given twice", s), "the same training would count twice", "give each once")
			}
		}
	}
	faults = append(faults, c.checkQuality()...)
	for i, v := range c.Variants {
		switch {
		case !experimentName.MatchString(v.Name):
			add("variants", fmt.Sprintf("%q cannot be the name of a variant", v.Name), "it names a folder", "use small letters, digits and hyphens")
		case slices.ContainsFunc(c.Variants[:i], func(w ExperimentVariant) bool { return w.Name == v.Name }):
			add("variants", fmt.Sprintf("two variants are called %s", v.Name), "", "give each a name of its own")
		}
	}
	for _, text := range c.Products {
		if _, err := ParseDate(text); err != nil {
			add("products", fmt.Sprintf("%q is no start", text), err.Error(), "write it as 2004-06-04, or 2004-06-04T12:00:00Z")
		}
	}
	faults = append(faults, c.checkData()...)
	known := func(at, variant string) {
		if !slices.ContainsFunc(c.Variants, func(v ExperimentVariant) bool { return v.Name == variant }) {
			add(at, fmt.Sprintf("there is no variant %q", variant), "", "name one of those under variants")
		}
	}
	for _, s := range c.Scores {
		known("scores", s.Variant)
		if s.Tolerance == 0 && s.AtMost == 0 && s.AtLeast == 0 {
			add("scores", fmt.Sprintf("nothing is expected of %s of %s at %s", s.Score, s.Variable, s.Level), "it has neither a tolerance nor a bound", "add `tolerance`, `at_most` or `at_least`")
		}
	}
	for _, g := range c.SkillScores {
		known("gains", g.Variant)
	}
	if c.Scores == nil && c.SkillScores == nil {
		add("scores", "the experiment expects nothing", "it could not fail", "add expected scores, with tolerances")
	}
	return faults
}

// TimedSeeds are the seeds of the trainings that are timed alone.
func (c *Experiment) TimedSeeds() []int {
	if c.Quality.Seeds != nil {
		return c.Quality.Seeds
	}
	return c.Seeds
}

// checkQuality applies the rules between keys about the quality.
func (c *ExperimentConfig) checkQuality() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	q := &c.Quality
	if q.Target == 0 && (q.Seeds != nil || q.Epochs > 0 || q.Tolerance > 0) {
		add("quality.target", "there is no quality to reach", "quality says something about the way to one", "add the loss on the validation starts that is to be reached")
	}
	if (q.Epochs > 0) != (q.Tolerance > 0) {
		add("quality.epochs", "epochs and their tolerance go together", "", "give quality.epochs and quality.tolerance, or neither")
	}
	if n := len(c.TimedSeeds()); q.Epochs > 0 && n < MinTimedRuns {
		add("quality.seeds", fmt.Sprintf("epochs are expected of %d trainings", n), fmt.Sprintf("their mean without the fewest and the most takes %d", MinTimedRuns), "add seeds")
	}
	return faults
}

// checkData applies the rules between keys about the data.
func (c *ExperimentConfig) checkData() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	d := &c.Data
	for _, list := range []struct {
		key   string
		names []string
	}{{"data.forecasts", d.Forecasts}, {"data.analyses", d.Analyses}} {
		for _, p := range list.names {
			if _, err := filepath.Match(p, ""); !filepath.IsLocal(p) || err != nil {
				add(list.key, fmt.Sprintf("%q is no pattern below the folder of the data", p), "", "write it relative to data.folder")
			}
		}
	}
	for i, f := range d.Files {
		at := "data.files"
		switch {
		case !filepath.IsLocal(f.Path):
			add(at, fmt.Sprintf("%q does not lie below the folder of the data", f.Path), "", "write it relative to data.folder")
		case slices.ContainsFunc(d.Files[:i], func(g ExperimentFile) bool { return g.Path == f.Path }):
			add(at, fmt.Sprintf("%s is listed twice", f.Path), "", "remove one of the two")
		}
		if !digest.MatchString(f.SHA256) {
			add(at, fmt.Sprintf("%q is no SHA-256", f.SHA256), "of "+f.Path, "write its 64 hexadecimal digits, as sha256sum does")
		}
		if f.URL != "" {
			if err := checkURL(f.URL); err != nil {
				add(at, fmt.Sprintf("%q cannot be fetched", f.URL), err.Error(), "give an address that begins with https://")
			}
		}
	}
	switch {
	case d.Source == FilesSource && d.Files == nil:
		add("data.files", "no file has a digest", "data that may be any say nothing about a result", "list the files; `sha256sum` gives their digests")
	case d.Source == ProtocolSource && !slices.Contains(Protocols(), d.Protocol.Name):
		add("data.protocol.name", fmt.Sprintf("there is no protocol %q", d.Protocol.Name), "", "give one of "+strings.Join(Protocols(), ", "))
	case d.Source != FilesSource && d.Folder != "":
		add("data.folder", "the program makes the data itself", "data.from is "+d.Source, "remove data.folder")
	}
	return faults
}

// checkURL finds addresses that are not fetched.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" || u.Host == "":
		return errors.New("only https is fetched")
	case u.User != nil:
		return errors.New("an address holds no secret")
	}
	return nil
}
