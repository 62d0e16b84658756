package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Predict is predict.yaml, the configuration of `ensemble predict` and `ensemble serve`. Flags of
// the command line override it.
type Predict struct {
	Version int    `key:"version"`
	RunDir  Path   `key:"run_dir"`
	Input   []Path `key:"input"`
	Out     Path   `key:"out"`
	Policy
	Publishing
	Serve Service `key:"serve"`
}

// Policy is the input policy: how a prediction handles incomplete or defective input. The zero
// value refuses such input and does not wait.
type Policy struct {
	Members            InputMembers    `key:"members"`
	Leads              []ensemble.Lead `key:"leads"`             // leads to read; nil: all leads of the model
	BadMessages        string          `key:"bad_messages"`      // "refuse" or "skip"
	Duplicates         string          `key:"duplicates"`        // "refuse", "first" or "last"
	OnModelMismatch    string          `key:"on_model_mismatch"` // "warn", "fallback" or "refuse"
	Drift              Drift           `key:"drift"`
	Bound              Bound           `key:"bound"`
	Alarms             Alarms          `key:"alarms"`
	OnFailure          string          `key:"on_failure"` // failure of the network: "refuse" or "fallback"
	Fallback           []string        `key:"fallback"`   // fallback methods in order of preference: baselines or "raw"
	AllowMissingChunks bool            `key:"allow_missing_chunks"`
	IndexCache         Path            `key:"index_cache"`
	Naming
}

// InputMembers is the section members: which members the input must have, and how long to wait for
// them.
type InputMembers struct {
	Expected    Members       `key:"expected"`
	Minimum     int           `key:"minimum"`
	Required    []string      `key:"required"`
	Control     string        `key:"control"`
	OnMissing   string        `key:"on_missing"` // "fail", "degrade" or "fallback"
	Wait        time.Duration `key:"wait"`
	Deadline    Deadline      `key:"deadline"`
	Poll        time.Duration `key:"poll"`
	DoneSuffix  string        `key:"done_suffix"`
	IndexSuffix string        `key:"index_suffix"`
	Lagged      Lagged        `key:"lagged"`
	MemberLayout
}

// Drift is the section drift: handling of input that differs from the training data.
type Drift struct {
	Limit   float64 `key:"limit"`    // drift score in standard deviations of the training data
	OnDrift string  `key:"on_drift"` // as Policy.OnModelMismatch
}

// Bound is the section bound: how far a forecast may be from its ensemble.
type Bound struct {
	Limit    float64 `key:"limit"`     // in multiples of the largest distance in training
	OnExcess string  `key:"on_excess"` // "refuse" or "fallback"
}

// Alarms is the section alarms: handling of initialisations while rolling verification has alarms.
type Alarms struct {
	File    Path   `key:"file"`
	OnAlarm string `key:"on_alarm"` // as Policy.OnModelMismatch
}

// RawFallback is the fallback method that needs no fitted baseline: raw mean and spread.
const RawFallback = "raw"

// Fallbacks lists the methods that can replace a network's forecast: those that read no more members than it.
func Fallbacks() []string {
	return append(slices.DeleteFunc(slices.Clone(Baselines), func(b string) bool { return b == FullEnsembleBaseline }), RawFallback)
}

// UsesFallback reports whether any key selects a fallback forecast.
func (p Policy) UsesFallback() bool {
	return slices.Contains([]string{p.OnModelMismatch, p.Drift.OnDrift, p.Bound.OnExcess, p.Alarms.OnAlarm, p.OnFailure, p.Members.OnMissing}, "fallback")
}

// Lagged is the section members.lagged: a lagged ensemble of several initialisations.
type Lagged struct {
	MaxAge time.Duration `key:"max_age"` // 0: one initialisation only
}

// PredictSchema is the schema of predict.yaml.
var PredictSchema = newOptionalSchema[Predict]("predict", slices.Concat([]schema.Key{
	{Path: "version", Default: "1", Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "run_dir", Example: "runs/a",
		Help: "Run directory of the model, or a promoted model name, as --run-dir."},
	{Path: "input", Example: "[fc/*.grib2]",
		Help: "Forecast files, patterns with * and ?, or directories, as --input. Patterns and directories are rescanned while the program waits."},
	{Path: "out", Example: "products",
		Help: "Directory of the products, as --out."},

	{Path: "members.expected", Example: "50",
		Help: "Members of a complete input: their number, or a list. Default: the members that the model uses."},
	{Path: "members.minimum", Check: AtLeast(1), Example: "40",
		Help: "Smallest number of complete members to continue with, for on_missing: degrade or fallback. Default: the smallest number that the model was trained for."},
	{Path: "members.required", Default: "[control]", Check: OneOf("control", "none"), Example: "[control]",
		Help: "Members without which no product is made. [none]: continue also without the control."},
	{Path: "members.control", Check: OneOf("include", "exclude", "mean_only", "none"), Example: "none",
		Help: "Use of the control member. include: as a member; exclude: ignored; none: the input has no control, perturbed members replace it; for models trained with data.members.control: none, number 0 is a member as any other. Default: as in training."},
	{Path: "members.on_missing", Default: "fail", Check: OneOf("fail", "degrade", "fallback"), Example: "degrade",
		Help: "Handling of missing members. fail: exit code 66, no product. degrade: continue with the complete members; products state their number, with status degraded. fallback: as degrade, but publish a fallback forecast if the network needs more members."},
	{Path: "members.wait", Check: Above(0), Example: "40m",
		Help: "Maximum time to wait for complete input."},
	{Path: "members.deadline", Example: "init+6h40m",
		Help: "End of waiting: time after the initialisation (init+6h40m), the first time of day after it (06:40Z), a time such as 2026-01-01T06:40Z, or time from now (+40m; a service counts from the first file); as --deadline. The earlier of wait and deadline applies."},
	{Path: "members.poll", Default: "5s", Check: Above(0), Example: "5s",
		Help: "Interval between scans of the input. A file is complete when its structure is valid and it has not changed between two scans, or for a minute."},
	{Path: "members.done_suffix", Example: ".done",
		Help: "Suffix of a marker file that is created next to each complete input file. Default: no marker files."},
	{Path: "members.index_suffix", Example: ".index",
		Help: "Suffix of an index file next to each input file (JSON lines with _offset and _length, or wgrib2 inventory): the input file is complete when it contains all indexed messages."},
	{Path: "members.lagged.max_age", Check: Above(0), Example: "24h",
		Help: "Largest age of older initialisations in a lagged ensemble, at the same valid times. Default: no lagged ensemble."},

	{Path: "leads", Check: AtLeast(0), Example: "[0h, 24h]",
		Help: "Leads to read from an incomplete forecast; the target leads among them are predicted. Only for networks with leads in rows (model.lead_axis) that do not depend on the number of leads; others need all leads."},
	{Path: "bad_messages", Default: "refuse", Check: OneOf("refuse", "skip"), Example: "skip",
		Help: "Handling of damaged messages and files. refuse: exit code 65. skip: ignore them, list them in the manifest, with status degraded."},
	{Path: "duplicates", Default: "refuse", Check: OneOf("refuse", "first", "last"), Example: "last",
		Help: "Handling of duplicate fields that differ. refuse: exit code 65. first, last: use that one, in the order of file names and messages, with status degraded. Identical duplicates are always accepted."},
	{Path: "on_model_mismatch", Default: "warn", Check: OneOf("warn", "fallback", "refuse"), Example: "refuse",
		Help: "Handling of forecasts from another centre, model cycle or grid than in training. warn: continue, with a warning in the manifest. fallback: publish a fallback forecast, with status degraded. refuse: exit code 65."},
	{Path: "drift.limit", Default: "6", Check: Above(0), Example: "6",
		Help: "Largest drift score: distance of mean, pattern or spread of an input field from the training data, in standard deviations over initialisations."},
	{Path: "drift.on_drift", Default: "warn", Check: OneOf("warn", "fallback", "refuse"), Example: "fallback",
		Help: "Handling of input with a drift score above drift.limit, as on_model_mismatch."},
	{Path: "bound.limit", Default: "2", Check: Above(0), Example: "3",
		Help: "Largest distance of a published mean from the members' mean, and largest published spread, in multiples of the largest distance of analysis and members' mean in training or, where it is larger, of the members' spread. The full ensemble's spread is compared with the largest one of training."},
	{Path: "bound.on_excess", Default: "refuse", Check: OneOf("refuse", "fallback"), Example: "fallback",
		Help: "Handling of forecasts beyond bound.limit. refuse: exit code 65. fallback: publish a fallback forecast, with status degraded."},
	{Path: "alarms.file", Example: "rolling/alarms.json",
		Help: "Alarm file of `ensemble verify --rolling`, read before each prediction. Alarms of other models are ignored."},
	{Path: "alarms.on_alarm", Default: "warn", Check: OneOf("warn", "fallback", "refuse"), Example: "fallback",
		Help: "Handling of initialisations while alarms.file has alarms, as on_model_mismatch."},
	{Path: "on_failure", Default: "refuse", Check: OneOf("refuse", "fallback"), Example: "fallback",
		Help: "Handling of a network that cannot be loaded or predicts NaN. refuse: end with an error. fallback: publish a fallback forecast, with status degraded."},
	{Path: "fallback", Default: "[emos_grid, emos, raw]", Check: OneOf(Fallbacks()...), Example: "[emos_grid, raw]",
		Help: "Fallback methods in order of preference: baselines fitted in training, or raw (mean and spread of the members). The first one available for all targets is used."},
	{Path: "allow_missing_chunks", Default: "false", Example: "true",
		Help: "Whether absent chunks of Zarr stores are accepted: as the fill value in version 3, as missing values in version 2. Default: an error, since chunks may have been lost."},
	{Path: "index_cache", Example: "/var/cache/ensemble",
		Help: "Directory for cached indexes of GRIB files, which make reopening faster. Default: no cache."},
}, memberLayoutKeys("members."), namingKeys(""), publishingKeys, couplingKeys, neighbourhoodKeys, serviceKeys, hookKeys))

// PredictConfig is a loaded predict.yaml, or its defaults.
type PredictConfig struct {
	Predict
	*Loaded
}

// LoadPredict loads predict.yaml. Without a file the configuration consists of defaults,
// environment variables and --set.
//
// Errors: exit 64 with all faults, each with its position and a fix.
func LoadPredict(src Sources) (*PredictConfig, error) {
	e, err := Load(PredictSchema, src)
	if err != nil {
		return nil, err
	}
	c := &PredictConfig{Loaded: e}
	e.Fill(&c.Predict)
	faults := c.checkPublishing()
	m := c.Members
	if n := m.Expected.N(); n > 0 && m.Minimum > n {
		faults = append(faults, c.Fault("members.minimum", fmt.Sprintf("members.minimum is %d, want at most members.expected, %d", m.Minimum, n), "", "lower it, or raise members.expected"))
	}
	if len(m.Required) > 1 {
		faults = append(faults, c.Fault("members.required", "members.required lists control and none", "they are mutually exclusive", "keep one"))
	}
	if m.Control == "mean_only" {
		faults = append(faults, c.Fault("members.control", "members.control: mean_only is not supported", "networks use mean and spread of the same members",
			"set include, exclude or none"))
	}
	if err := JoinFaults(faults); err != nil {
		return nil, err
	}
	return c, nil
}
