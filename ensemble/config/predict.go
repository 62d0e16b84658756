package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Predict is the configuration of `ensemble predict` and `ensemble serve`. Flags of the command line come
// before it.
type Predict struct {
	Version int    `key:"version"`
	RunDir  Path   `key:"run_dir"`
	Input   []Path `key:"input"`
	Out     Path   `key:"out"`
	Policy
	Publishing
	Serve Service `key:"serve"`
}

// Policy says what a prediction does with input that is incomplete or defective. The zero
// value refuses all of it and waits for nothing.
type Policy struct {
	Members            InputMembers    `key:"members"`
	Leads              []ensemble.Lead `key:"leads"`        // that are read; nil for all of the model
	BadMessages        string          `key:"bad_messages"` // "refuse" or "skip"
	Duplicates         string          `key:"duplicates"`   // "refuse", "first" or "last"
	OnModelMismatch    string          `key:"other_model"`  // "warn", "fall_back" or "refuse"
	Drift              Drift           `key:"drift"`
	Alarms             Alarms          `key:"alarms"`
	OnFailure          string          `key:"on_failure"` // of the network: "refuse" or "fall_back"
	Fallback           []string        `key:"fall_back"`  // baselines or "raw", the best first
	AllowMissingChunks bool            `key:"sparse"`
	IndexCache         Path            `key:"index_cache"`
}

// InputMembers says which members the input must have.
type InputMembers struct {
	Expected    Members       `key:"expected"`
	Minimum     int           `key:"minimum"`
	Required    []string      `key:"required"`
	Control     string        `key:"control"`
	OnMissing   string        `key:"on_short"` // "fail", "degrade" or "fall_back"
	Wait        time.Duration `key:"wait"`
	Deadline    Deadline      `key:"deadline"`
	Poll        time.Duration `key:"poll"`
	DoneSuffix  string        `key:"done"`
	IndexSuffix string        `key:"index"`
	Lagged      Lagged        `key:"lagged"`
	MemberLayout
}

// Drift says what becomes of a start whose input is unlike that of the training.
type Drift struct {
	Limit   float64 `key:"limit"`    // in standard deviations of the training's starts
	OnDrift string  `key:"on_drift"` // as Policy.OnModelMismatch
}

// Alarms says what becomes of starts while the verification of past products has alarms.
type Alarms struct {
	File    Path   `key:"file"`
	OnAlarm string `key:"on_alarm"` // as Policy.OnModelMismatch
}

// RawFallback is the rung of Policy.Fallback that needs no training.
const RawFallback = "raw"

// UsesFallback says whether any condition makes a prediction do without its network.
func (p Policy) UsesFallback() bool {
	return slices.Contains([]string{p.OnModelMismatch, p.Drift.OnDrift, p.Alarms.OnAlarm, p.OnFailure, p.Members.OnMissing}, "fall_back")
}

// Lagged makes one ensemble of several starts.
type Lagged struct {
	MaxAge time.Duration `key:"max_age"` // 0 takes only one start
}

// PredictSchema describes predict.yaml.
var PredictSchema = newOptionalSchema[Predict]("predict", slices.Concat([]Key{
	{Path: "version", Default: "1", Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "run_dir", Example: "runs/a",
		Help: "Folder of a finished training, as --run-dir."},
	{Path: "input", Example: "[fc/*.grib2]",
		Help: "Forecast files, as --input; patterns with * and ?, and folders, which stand for the files in them, are looked at again while the program waits."},
	{Path: "out", Example: "products",
		Help: "Folder of the products, as --out."},

	{Path: "members.expected", Example: "50",
		Help: "Members that a complete input has: how many, or their numbers. Without it, those that the model uses."},
	{Path: "members.minimum", Check: AtLeast(1), Example: "40",
		Help: "Fewest complete members to go on with under on_short: degrade or fall_back. Without it, the fewest that the model was trained for."},
	{Path: "members.required", Default: "[control]", Check: OneOf("control", "none"), Example: "[control]",
		Help: "Members without which there is no product. [none] also goes on without the control."},
	{Path: "members.control", Check: OneOf("include", "exclude", "mean_only", "none"), Example: "none",
		Help: "Whether the control is one of the members. exclude leaves it out, none says that the input has none: perturbed members stand in for it. Without it, as the model was trained."},
	{Path: "members.on_short", Default: "fail", Check: OneOf("fail", "degrade", "fall_back"), Example: "degrade",
		Help: "What becomes of a start without all expected members: fail ends with 66 and no product; degrade goes on with those that are complete, states their number in every product, and status degraded; fall_back does so too, and where the network was trained for more members publishes what fall_back names."},
	{Path: "members.wait", Check: Above(0), Example: "40m",
		Help: "How long to wait for an input that is not complete."},
	{Path: "members.deadline", Example: "06:40Z",
		Help: "When waiting ends: a time of day (the nearest, past or coming), a time such as 2026-01-01T06:40Z, or +40m from now; as --deadline. Of wait and deadline the earlier counts; either makes the program wait."},
	{Path: "members.poll", Default: "5s", Check: Above(0), Example: "5s",
		Help: "Time between two looks at the files. A file is complete when it has not changed between two looks, or for a minute, and its structure is whole."},
	{Path: "members.done", Example: ".done",
		Help: "Ending of the file beside each input file that says that it is complete; without it none is looked for."},
	{Path: "members.index", Example: ".index",
		Help: "Ending of the index beside each input file, rows of JSON with _offset and _length or of wgrib2: a file is complete when all rows lie in it."},
	{Path: "members.lagged.max_age", Check: Above(0), Example: "24h",
		Help: "Makes one ensemble of a start and of those up to so much older, at the same valid times. Without it starts stay apart."},

	{Path: "leads", Check: AtLeast(0), Example: "[0h, 24h]",
		Help: "Leads that are read, where a forecast is not there to its end: members are predicted at the target leads among them. For networks with leads in rows (model.leads) that learned nothing of their number; others need all."},
	{Path: "bad_messages", Default: "refuse", Check: OneOf("refuse", "skip"), Example: "skip",
		Help: "Damaged messages and files: refuse ends with 65; skip leaves them out, counts and names them in the manifest, and gives status degraded."},
	{Path: "duplicates", Default: "refuse", Check: OneOf("refuse", "first", "last"), Example: "last",
		Help: "Fields that are in the input twice and differ: refuse ends with 65; first and last take that one, by file name and message, with status degraded. Equal ones are one field under each."},
	{Path: "other_model", Default: "warn", Check: OneOf("warn", "fall_back", "refuse"), Example: "refuse",
		Help: "Forecasts of another centre, cycle of its forecast model or grid than the network was trained on, whose errors it does not know: warn goes on and says so in the manifest; fall_back publishes what fall_back names, with status degraded; refuse ends with 65."},
	{Path: "drift.limit", Default: "6", Check: Above(0), Example: "6",
		Help: "How far level, pattern or spread of an input field may be from those of the training, in standard deviations of its starts."},
	{Path: "drift.on_drift", Default: "warn", Check: OneOf("warn", "fall_back", "refuse"), Example: "fall_back",
		Help: "Input beyond drift.limit: as other_model."},
	{Path: "alarms.file", Example: "rolling/alarms.json",
		Help: "File in which `ensemble verify --rolling` keeps its alarms, looked at before each prediction. Alarms of another model do not count."},
	{Path: "alarms.on_alarm", Default: "warn", Check: OneOf("warn", "fall_back", "refuse"), Example: "fall_back",
		Help: "What becomes of starts while that file has alarms: as other_model."},
	{Path: "on_failure", Default: "refuse", Check: OneOf("refuse", "fall_back"), Example: "fall_back",
		Help: "A network that cannot be read or opened, or gives values that are no numbers: refuse ends with an error; fall_back publishes what fall_back names, with status degraded."},
	{Path: "fall_back", Default: "[emos_grid, emos, raw]", Check: OneOf(slices.Concat(Baselines, []string{RawFallback})...), Example: "[emos_grid, raw]",
		Help: "What forecasts in place of the network: baselines that were fitted in the training, or raw, the members' mean and spread; the first that the model has for all its targets."},
	{Path: "sparse", Default: "false", Example: "true",
		Help: "Whether chunks that are absent in Zarr stores are missing values; by default they are refused, since they may have been lost."},
	{Path: "index_cache", Example: "/var/cache/ensemble",
		Help: "Folder in which indexes of GRIB files are kept, so that they open faster the next time; without it none are."},
}, memberLayoutKeys("members."), publishingKeys, couplingKeys, neighbourhoodKeys, serviceKeys))

// PredictConfig is a loaded predict.yaml, or the defaults.
type PredictConfig struct {
	Predict
	*loaded
}

// LoadPredict reads the configuration of a prediction; without a file it has the
// defaults, the environment and --set.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy.
func LoadPredict(src Sources) (*PredictConfig, error) {
	e, err := load(PredictSchema, src)
	if err != nil {
		return nil, err
	}
	c := &PredictConfig{loaded: e}
	e.fill(&c.Predict)
	faults := c.checkPublishing()
	m := c.Members
	if n := m.Expected.N(); n > 0 && m.Minimum > n {
		faults = append(faults, c.fault("members.minimum", fmt.Sprintf("members.minimum is %d, of %d that are expected", m.Minimum, n), "", "lower it, or raise members.expected"))
	}
	if len(m.Required) > 1 {
		faults = append(faults, c.fault("members.required", "members.required lists control and none", "the two exclude each other", "keep one"))
	}
	if m.Control == "mean_only" {
		faults = append(faults, c.fault("members.control", "no network was trained with members.control: mean_only", "its features take mean and spread over the same members",
			"set include, exclude or none"))
	}
	return c, joinFaults(faults)
}

// Deadline is when waiting ends, as it is written.
type Deadline string

var errDeadline = errors.New("a time such as 06:40Z or 2026-01-01T06:40Z, or +40m")

const timeOfDay = "15:04Z"

// ParseDeadline reads 06:40Z, the time of that day nearest to now, +40m, which counts from now,
// or a time as ParseDate reads it.
func ParseDeadline(text string, now time.Time) (time.Time, error) {
	if after, ok := strings.CutPrefix(text, "+"); ok {
		d, err := ParseDuration(after)
		return now.Add(d), err
	}
	if t, err := time.Parse(timeOfDay, text); err == nil {
		day := now.UTC().Truncate(24 * time.Hour)
		at := day.Add(t.Sub(t.Truncate(24 * time.Hour)))
		switch d := at.Sub(now); {
		case d > 12*time.Hour:
			at = at.Add(-24 * time.Hour)
		case d < -12*time.Hour:
			at = at.Add(24 * time.Hour)
		}
		return at, nil
	}
	d, err := ParseDate(text)
	if err == nil && d.WholeDay {
		err = errDeadline
	}
	return d.Time, err
}
