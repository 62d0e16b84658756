package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Train is the configuration of `ensemble train`.
type Train struct {
	Version   int       `key:"version"`
	Data      Data      `key:"data"`
	Model     Model     `key:"model"`
	Train     Training  `key:"train"`
	Baselines []string  `key:"baselines"`
	Climate   Climate   `key:"climate"`
	Calibrate Calibrate `key:"calibrate"`
	Prune     Prune     `key:"prune"`
	Teacher   Teacher   `key:"teacher"`
}

// Data says what is learned from.
type Data struct {
	Forecasts          []Path                   `key:"forecasts"`
	Analyses           []Path                   `key:"analyses"`
	Store              Path                     `key:"store"`
	Memory             Bytes                    `key:"memory"`
	Prefetch           int                      `key:"prefetch"`
	DirectIO           bool                     `key:"direct"`
	DiskCache          DiskCache                `key:"disk_cache"`
	Peers              string                   `key:"peers"`
	AllowMissingChunks bool                     `key:"sparse"`
	IndexCache         Path                     `key:"index_cache"`
	Grid               Interpolation            `key:"grid"`
	Members            MemberPolicy             `key:"members"`
	Leads              []ensemble.Lead          `key:"leads"`
	TargetLead         ensemble.Lead            `key:"target_lead"`
	TargetLeads        []ensemble.Lead          `key:"target_leads"` // of a loaded configuration never empty
	Levels             []ensemble.Level         `key:"levels"`
	Variables          []string                 `key:"variables"`
	Targets            []Target                 `key:"targets"`
	Features           []string                 `key:"features"`
	Standardise        ensemble.Standardisation `key:"standardise"`
	LAS                LAS                      `key:"las"`
	Split              Split                    `key:"split"`
	SpreadDDOF         int                      `key:"spread_ddof"`
	Auxiliary          Auxiliary                `key:"auxiliary"`
}

// DefaultPrefetch is how many starts are read ahead unless it is told.
const DefaultPrefetch = 4

// Values of Data.Peers.
const (
	PeersAuto   = "auto"
	PeersAlways = "always"
	PeersNever  = "never"
)

// DiskCache is a place on a disk of the machine for starts of the store.
type DiskCache struct {
	Folder Path  `key:"folder"`
	Size   Bytes `key:"size"`
}

// MemberPolicy says which members are input and how many make the full ensemble.
type MemberPolicy struct {
	Use      Members `key:"use"`
	Minimum  int     `key:"least"` // 0 stands for Use
	Full     int     `key:"full"`
	Control  string  `key:"control"`  // "include" or "exclude"
	Sampling string  `key:"sampling"` // "fixed" or "random"
	MemberLayout
}

// Interpolation says to which grid all fields are brought, and how.
type Interpolation struct {
	To       string  `key:"to"`        // "forecasts", "analyses" or a name for ensemble.NamedGrid; empty leaves fields where they are
	Method   string  `key:"method"`    // "bilinear", "conservative" or "nearest"
	MinValid float64 `key:"min_valid"` // share of weights
}

// IsNamed says whether the grid is given by its name, rather than by that of files.
func (p Interpolation) IsNamed() bool { return p.To != "" && p.To != "forecasts" && p.To != "analyses" }

// Target is a variable whose distribution is predicted, on some levels.
type Target struct {
	Variable string           `key:"variable"`
	Levels   []ensemble.Level `key:"levels"`
}

// LAS shapes the maps of Local Area-wise Standardization.
type LAS struct {
	Window int     `key:"window"` // grid points
	Smooth float64 `key:"smooth"` // grid points
}

// Split divides the starts by their dates, or by fractions of the sorted starts.
type Split struct {
	Train      Period    `key:"train"`
	Validation Period    `key:"validation"`
	Test       Period    `key:"test"`
	Fractions  Fractions `key:"fractions"`
}

// IsByDate says whether the split is given by periods.
func (s Split) IsByDate() bool { return !s.Train.From.IsZero() }

// Period is a span of init dates, both ends included.
type Period struct {
	From Date `key:"from"`
	To   Date `key:"to"`
}

// Period is the period in the terms of package ensemble.
func (p Period) Period() ensemble.Period { return ensemble.Period{From: p.From.Time, To: p.To.End()} }

func (p Period) isSet() bool { return !p.From.IsZero() && !p.To.IsZero() }

// Fractions are shares of the starts in the order of their dates; what is left
// after training and validation is for the test.
type Fractions struct {
	Train      float64 `key:"train"`
	Validation float64 `key:"validation"`
}

// SharedLevelFilters is the treatment of levels by which all have one filter.
const SharedLevelFilters = "shared"

// Model is the network.
type Model struct {
	Kind         string  `key:"kind"`
	LevelFilters string  `key:"height"`
	Base         int     `key:"base"`
	Stages       int     `key:"stages"`
	Dropout      float64 `key:"dropout"`
	Location     bool    `key:"location"`
	Season       bool    `key:"season"`
	Periodic     bool    `key:"periodic"`
	Head         Head    `key:"head"`
	Pretrained   Path    `key:"start"`
	// ChannelsFrom is the run whose channels the network has from its start.
	ChannelsFrom Path      `key:"channels_of"`
	Method       Method    `key:"method"`
	Bias         BiasModel `key:"bias"`
	Members      string    `key:"members"`
	Pool         string    `key:"pool"`
	Encoder      Encoder   `key:"encoder"`
	Attention    string    `key:"attention"`
	Family       Family    `key:"family"`
	Degree       int       `key:"degree"`
	Bins         int       `key:"bins"`

	Embedding int    `key:"embedding"` // learned fields; 0 has none
	Reference string `key:"reference"` // NoReference or one of References

	LeadAxis   string   `key:"leads"`
	Conditions []string `key:"conditions"`

	Recurrent Recurrent `key:"recurrent"`
	Axial     Axial     `key:"axial"`
	Maps      bool      `key:"maps"`

	CrossFit CrossFit `key:"cross_fit"`
	Share    Share    `key:"share"`
}

// Training is how the network is trained.
type Training struct {
	Epochs              int           `key:"epochs"`
	BatchSize           int           `key:"batch_size"`
	Accumulate          int           `key:"accumulate"`
	Optimizer           string        `key:"optimizer"`
	TrustCoefficient    float64       `key:"trust"` // of lars; 0 has the optimiser's own
	LearningRate        float64       `key:"learning_rate"`
	LearningRateScaling string        `key:"scale"`
	BaseBatchSize       int           `key:"base_batch"` // 0 stands for BatchSize
	WeightDecay         float64       `key:"weight_decay"`
	Schedule            string        `key:"schedule"`
	Warmup              int           `key:"warmup"`
	Clip                float64       `key:"clip"`
	EMA                 float64       `key:"ema"` // 0 keeps no average
	Loss                LossTerms     `key:"loss"`
	Seed                int           `key:"seed"`
	EarlyStop           EarlyStop     `key:"early_stop"`
	Checkpoint          Checkpoint    `key:"checkpoint"`
	Networks            int           `key:"networks"`
	Device              string        `key:"device"`
	Threads             int           `key:"threads"`
	Memory              Bytes         `key:"memory"`
	Workspace           Bytes         `key:"workspace"`
	Precision           string        `key:"precision"`
	Mesh                string        `key:"mesh"`
	Machine             Path          `key:"machine"`
	StallTimeout        time.Duration `key:"stall_timeout"`
	ShardOptimizer      bool          `key:"shard_optimizer"`
	Stages              Stages        `key:"stages"`
}

// DefaultStallTimeout is how long a rank waits for another one unless it is told.
const DefaultStallTimeout = 10 * time.Minute

// LossTerms are what the optimiser lowers.
type LossTerms struct {
	Kind     Loss      `key:"kind"`
	Spread   float64   `key:"spread"` // weight of the spread term beside the main one
	Fairness Fairness  `key:"fairness"`
	Scales   []float64 `key:"scales"` // standard deviations in grid points, falling

	Threshold       []ensemble.VariableEvent `key:"threshold"`
	ThresholdWeight float64                  `key:"threshold_weight"`
	Extreme         float64                  `key:"extreme"` // 0 weights all points alike
	LeadWeights     []float64                `key:"leads"`   // of each target lead; none weights all alike
}

// EarlyStop ends training when validation no longer improves.
type EarlyStop struct {
	Patience int `key:"patience"` // epochs; 0 never stops early
}

// Checkpoint says how often the state is saved.
type Checkpoint struct {
	Every int `key:"every"` // epochs
	Keep  int `key:"keep"`
}

// Baselines are the names of the methods of postproc/baseline, in its order.
var Baselines = []string{"emos", "emos_grid",
	"emos_logistic", "emos_truncated_normal", "emos_truncated_logistic", "emos_censored_normal", "emos_censored_logistic", "emos_log_normal", "emos_csg", "samos",
	"emos_point", "emos_point_logistic", "emos_point_truncated_normal", "emos_point_truncated_logistic", "emos_point_censored_normal",
	"emos_point_censored_logistic", "emos_point_log_normal",
	"mbm", "mbm_crps", "quantile_map", "climatology"}

// Precisions are the types in which fields of a network are stored and multiplied; package engine says of each what that is.
var Precisions = []string{"f32", "bf16", "bf16_products", "f16", "tf32"}

// TrainSchema describes train.yaml.
var TrainSchema = newSchema[Train]("train", slices.Concat([]Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "baselines", Default: "[emos, emos_grid, climatology]", Check: OneOf(Baselines...), Example: "[emos, emos_grid, emos_point, mbm, climatology]",
		Help: "What the network is compared with beside the raw ensemble: names of docs/verification.md. They are fitted to the training and validation starts and scored where the network is."},

	{Path: "data.forecasts", Required: true, Example: "[fc/*.grib2]",
		Help: "Files of the ensemble forecasts, GRIB or NetCDF, and Zarr stores; patterns with * and ?, and folders, which stand for the files in them."},
	{Path: "data.analyses", Example: "[an/*.nc]",
		Help: "Files of the analyses that forecasts are compared with, as data.forecasts. Needed for scores and for heads that predict a distribution."},
	{Path: "data.store", Example: "store",
		Help: "Folder of a sample store that `ensemble data prepare` has made of the forecasts and analyses: training reads it in their place."},
	{Path: "data.memory", Default: "4GiB", Example: "32GiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Memory of a process for starts of data.store that are kept between epochs, which its parts of train.mesh share; those that it needs most often. What has no room is read again each time. 0 sets no bound. Starts of other files are all kept."},
	{Path: "data.prefetch", Default: strconv.Itoa(DefaultPrefetch), Check: Between(1, 1024), Example: "8", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Starts of data.store that are read ahead of their use, and at once. Each takes the memory of a start, of a rank that of its part."},
	{Path: "data.direct", Default: "false", Example: "true", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Whether data.store is read past the page cache of the system, where its file system allows that: faster from fast disks, for a store that is larger than the machine's memory."},
	{Path: "data.disk_cache.folder", Example: "/local/scratch", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Folder on a fast disk of the machine where starts of data.store are kept that have no room in data.memory, for as long as the training runs."},
	{Path: "data.disk_cache.size", Default: "0", Example: "200GiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Bytes of a process in data.disk_cache.folder, which its parts of train.mesh share."},
	{Path: "data.peers", Default: PeersAuto, Check: OneOf(PeersAuto, PeersAlways, PeersNever), Example: PeersAlways, MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Whether ranks of an MPI job take starts of data.store from the memory of others that have them, over TCP: always, never, or auto, where that was faster than the file system lately. Ranks along the axis data of train.mesh do so."},
	{Path: "data.sparse", Default: "false", Example: "true",
		Help: "Whether chunks that are absent in Zarr stores are missing values; by default they are refused, since they may have been lost."},
	{Path: "data.index_cache", Example: "/var/cache/ensemble", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Folder in which indexes of GRIB files are kept, so that they open faster the next time; without it none are."},
	{Path: "data.grid.to", Default: "", Example: "1.5deg",
		Help: "Grid to which all fields are brought, so that forecasts and analyses on different grids can be used together: forecasts (that of most forecast fields), analyses, or a name: 1.5deg has rows on the poles, 360x180 rows between them, F48 Gaussian rows, 0.5deg@72/-20/30.5/44.5 an area (north/west/south/east). The model keeps it: prediction brings its input there as well. Empty: all fields are on one grid already."},
	{Path: "data.grid.method", Default: "bilinear", Check: OneOf("bilinear", "conservative", "nearest"), Example: "conservative",
		Help: "How fields are brought to data.grid.to: bilinear, conservative (means of the area under a cell; for sums such as precipitation), or nearest."},
	{Path: "data.grid.min_valid", Default: "0.5", Check: Between(0.001, 1), Example: "0.75",
		Help: "Share of the weights that must fall on values that are there, for a point of data.grid.to not to be missing."},
	{Path: "data.members.use", Default: "5", Example: "[0, 1, 2, 3, 4]",
		Help: "Members whose trajectories are input: how many, or their numbers."},
	{Path: "data.members.least", Check: AtLeast(1), Example: "3",
		Help: "Fewest members that are input in training: every sample takes a number from this one to data.members.use, so that the model may be asked for as many. Without it always data.members.use."},
	{Path: "data.members.full", Default: "10", Check: AtLeast(2), Example: "10",
		Help: "Members of the full ensemble, whose spread is the target."},
	{Path: "data.members.control", Default: "include", Check: OneOf("include", "exclude"), Example: "exclude",
		Help: "Whether the control counts as one of the members."},
	{Path: "data.members.sampling", Default: "fixed", Check: OneOf("fixed", "random"), Example: "random",
		Help: "fixed: always the same members are input. random: in training a new choice for every sample."},
	{Path: "data.leads", Required: true, Check: AtLeast(0), Example: "[0h, 24h, 48h]",
		Help: "Leads of the trajectories, ascending."},
	{Path: "data.levels", Required: true, Example: "[850hPa, 500hPa]",
		Help: "Levels that are input; the depth axis of the networks. [single] for variables that belong to one level each, such as 2t, msl and tp."},
	{Path: "data.variables", Required: true, Example: "[t, gh, u, v, vo]",
		Help: "Variables that are input, by the short names that `ensemble inspect` prints."},
	{Path: "data.targets", Required: true, Example: "[{variable: t, levels: [850hPa]}]",
		Help: "What is predicted: variables, each with its levels."},
	{Path: "data.targets[].variable", Required: true, Example: "t",
		Help: "One of data.variables."},
	{Path: "data.targets[].levels", Required: true, Example: "[850hPa]",
		Help: "Levels of this target, among data.levels."},
	{Path: "data.features", Default: "[spread, first, offset]", Check: OneOf("spread", "first", "offset"), Example: "[spread, first]",
		Help: "What is input of each variable and lead: spread of the members, first member, offset of the mean from the first. The published networks have the first two."},
	{Path: "data.standardise", Default: "global", Check: OneOf("global", "las"), Example: "las",
		Help: "global: one mean and scale a variable and level. las: maps of them (Local Area-wise Standardization). Fitted on training dates only."},
	{Path: "data.las.window", Default: "7", Check: AtLeast(1), Example: "7",
		Help: "Side of the windows of las in grid points."},
	{Path: "data.las.smooth", Default: "10", Check: AtLeast(0), Example: "10",
		Help: "Standard deviation of the filter over the maps of las in grid points."},
	{Path: "data.split.train.from", Example: "1982-01-01", Help: "First start for training."},
	{Path: "data.split.train.to", Example: "1983-09-30", Help: "Last start for training."},
	{Path: "data.split.validation.from", Example: "1983-10-01", Help: "First start for validation."},
	{Path: "data.split.validation.to", Example: "1983-12-31", Help: "Last start for validation."},
	{Path: "data.split.test.from", Example: "1984-01-10", Help: "First start for the test."},
	{Path: "data.split.test.to", Example: "1984-12-31", Help: "Last start for the test."},
	{Path: "data.split.fractions.train", Check: Between(0, 1), Example: "0.7",
		Help: "Share of the starts, the earliest, for training, instead of periods; 0.7 if neither is given."},
	{Path: "data.split.fractions.validation", Check: Between(0, 1), Example: "0.1",
		Help: "Share of the starts that follow the training for validation, 0.1 if nothing is given; the rest is the test."},
	{Path: "data.spread_ddof", Default: "1", Check: OneOf("0", "1"), Example: "1",
		Help: "Divisor of the spread that is input and target: members minus this."},

	{Path: "model.kind", Default: unet3d.UNetKind.Name, Check: OneOf(unet3d.KindNames(func(*unet3d.Kind) bool { return true })...), Example: "unet3d",
		Help: kindHelp()},
	{Path: "model.height", Default: SharedLevelFilters, Check: OneOf(SharedLevelFilters, "full", "affine", "separable"), Example: "affine",
		Help: "How layers of the U-Net treat levels, which are not alike. shared: one filter for all. full: a filter for each. affine: one filter, and a factor for each level. separable: one filter along latitude and longitude, then one across the levels for each level."},
	{Path: "model.base", Default: "16", Check: Between(1, 1024), Example: "32",
		Help: "Channels of the first stage."},
	{Path: "model.stages", Default: "3", Check: Between(1, 6), Example: "3",
		Help: "How often the U-Net halves the resolution."},
	{Path: "model.dropout", Default: "0", Check: BetweenHalfOpen(0, 1), Example: "0.1",
		Help: "Share of channels that is dropped in training."},
	{Path: "model.location", Default: "true", Example: "true",
		Help: "Whether latitude and longitude are input."},
	{Path: "model.season", Default: "true", Example: "true",
		Help: "Whether the time of year is input."},
	{Path: "model.periodic", Default: "true", Example: "true",
		Help: "Whether convolutions wrap around in longitude on grids that do."},
	{Path: "model.head", Default: string(DistributionHead), Check: OneOf(SpreadHead, DistributionHead, MembersHead), Example: string(DistributionHead),
		Help: "What comes out: the spread of the full ensemble; mean and spread of the analysis; or members, each of which is a corrected member of the input."},
	{Path: "model.start", Example: "models/published/weights.safetensors",
		Help: "Weights to start from, as safetensors: those whose names and shapes match are taken, the rest start at random."},
	{Path: "model.channels_of", Example: "runs/pruned",
		Help: "Folder of a finished training whose network lost channels: the network has as many from its start, with weights of its own."},

	{Path: "train.epochs", Default: "60", Check: Between(1, 1e6), Example: "60", MayChangeOnResume: true,
		Help: "Passes over the training starts at most."},
	{Path: "train.batch_size", Default: "4", Check: Between(1, 65536), Example: "4",
		Help: "Samples that are computed at once."},
	{Path: "train.accumulate", Default: "1", Check: Between(1, 65536), Example: "8",
		Help: "Batches a step: the optimiser moves along the mean of their gradients. Needs the memory of one batch; equal to a batch that many times as large, but for batch statistics."},
	{Path: "train.optimizer", Default: "adamw", Check: OneOf("adamw", "adam", "sgd", "lars", "lamb"), Example: "adamw",
		Help: "The optimiser. sgd and lars have a momentum of 0.9."},
	{Path: "train.trust", Check: Above(0), Example: "0.001",
		Help: "Trust coefficient of lars, 0.001 if not given: a filter moves by about learning_rate times this share of its norm."},
	{Path: "train.learning_rate", Default: "0.001", Check: Above(0), Example: "0.001",
		Help: "Learning rate; the largest of the schedule, before train.scale."},
	{Path: "train.scale", Default: "none", Check: OneOf("linear", "sqrt", "none"), Example: "linear",
		Help: "How the learning rate follows the samples of a step, batch_size times accumulate: it is multiplied by their ratio to base_batch, or by the root of it (for methods like adam)."},
	{Path: "train.base_batch", Check: Between(1, 1e9), Example: "4",
		Help: "Samples a step that learning_rate is meant for, for train.scale; batch_size if not given."},
	{Path: "train.weight_decay", Default: "0.0001", Check: AtLeast(0), Example: "0.0001",
		Help: "Weight decay of adamw and lamb, or L2 penalty of the others."},
	{Path: "train.schedule", Default: "cosine", Check: OneOf("constant", "cosine", "triangular2", "plateau"), Example: "cosine",
		Help: "How the learning rate changes over the steps."},
	{Path: "train.warmup", Default: "0", Check: AtLeast(0), Example: "100",
		Help: "Steps over which the learning rate rises linearly: from zero, or with train.scale from learning_rate itself."},
	{Path: "train.clip", Default: "1", Check: AtLeast(0), Example: "1",
		Help: "Largest norm of the gradient; 0 never clips."},
	{Path: "train.ema", Default: "0", Check: BetweenHalfOpen(0, 1), Example: "0.999",
		Help: "Decay of a running average of the weights, which is then what is validated, kept as best and saved in the model; 0 keeps none."},
	{Path: "train.loss.kind", Default: string(CRPSLoss), Check: OneOf(Losses...), Example: string(CRPSLoss),
		Help: "What is lowered: the CRPS of the distribution against the analysis (pinball: of a Bernstein quantile function at 99 levels; cross_entropy: of a histogram; of members that come out, that of their mean and standard deviation), crps_members, the CRPS of such members themselves, or a distance to the full ensemble's spread."},
	{Path: "train.loss.spread", Default: "0", Check: AtLeast(0), Example: "0.5",
		Help: "Weight of the distance to the full ensemble's spread beside the main loss."},
	{Path: "train.seed", Default: "1", Check: AtLeast(0), Example: "1",
		Help: "All random numbers follow from it."},
	{Path: "train.early_stop.patience", Default: "10", Check: AtLeast(0), Example: "10",
		Help: "Epochs without improvement on the validation starts after which training ends; 0 never."},
	{Path: "train.checkpoint.every", Default: "1", Check: AtLeast(1), Example: "1", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Epochs between checkpoints."},
	{Path: "train.checkpoint.keep", Default: "2", Check: AtLeast(2), Example: "2", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Checkpoints that are kept beside the best one."},
	{Path: "train.networks", Default: "1", Check: Between(1, 100), Example: "3",
		Help: "Networks that are trained from different seeds and averaged."},
	{Path: "train.device", Default: "cpu", Check: OneOf("cpu", "cuda", "auto"), Example: "auto", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "What computes: the processor (cpu), an NVIDIA GPU (cuda), or the GPU where there is one and else the processor (auto). Each rank of a machine takes another GPU."},
	{Path: "train.threads", Default: "0", Check: Between(0, 4096), Example: "2", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Threads of a process, which its parts of train.mesh share; 0 takes all that the machine gives."},
	{Path: "train.memory", Default: "0", Example: "4GiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Memory of a process for a step, which its parts of train.mesh share: inputs, activations, their gradients, and what kernels use in turn. If more is needed, slower kernels are taken and then some values are computed again, or on a GPU copied to the host for a while, which changes no bit; 0 sets no bound, or on a GPU what it has left."},
	{Path: "train.workspace", Default: "0", Example: "64MiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Memory that kernels use in turn for intermediate results, a part of train.memory. Slower ways are taken if the fastest need more, which changes no bit; 0 sets no bound."},
	{Path: "train.precision", Default: "f32", Check: OneOf(Precisions...), Example: "bf16",
		Help: "How fields inside the network are stored, in training and in prediction: f32, or bf16 in half of the memory. Arithmetic, weights, their gradients, statistics and the loss are f32 either way. With bf16_products convolutions also multiply bf16, with sums in f32: faster on processors with AVX512_BF16, and refused on others. f16 is for GPUs: half of the memory with three more bits than bf16, and products on matrix units of a V100 too; the loss is scaled so that small gradients are kept, and steps that overflow are skipped. tf32 stores f32 and lets GPUs round what convolutions multiply to 11 bits; elsewhere it is f32."},
	{Path: "train.mesh", Default: "", Example: "data:2 lon:4", MayChangeOnResume: true,
		Help: "How the ranks of an MPI job divide a step: axes data (samples of a batch), level, lat, lon and channel, each with its number of ranks; lon:4@2x11x22=channel cuts something else in fields of that size. Empty or auto: the mesh on which a step is predicted to take least time on train.machine, see `ensemble plan`. A mesh of more parts than there are ranks is dealt out to them, all of it to a process without launcher, and gives the same bits on any number of ranks."},
	{Path: "train.machine", Example: "machine.yaml", MayChangeOnResume: true,
		Help: "Description of the machine (docs/formats/machine.md) by which train.mesh: auto chooses, and `ensemble plan`. Without it a typical machine is assumed, by `plan` nodes like the present one."},
	{Path: "train.stall_timeout", Default: formatDuration(DefaultStallTimeout), Check: Above(0), Example: "2m", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "How long a rank of an MPI job waits for another one, which is then taken for lost: the job ends, and its last checkpoint is resumed. Longer than the longest step, and than reading the data on the slowest node."},
	{Path: "train.shard_optimizer", Default: "false", Example: "true", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Whether each rank of an MPI job keeps the moments of a part of the parameters only, and moves that part for all. Saves memory (with adamw two values a parameter, but for the rank's share) and changes no bit."},
}, memberLayoutKeys("data.members."), biasKeys(), stageKeys(), memberKeys(), referenceKeys(), spatialInputKeys(), climateKeys(), calibrateKeys(), headKeys(), pruneKeys(), leadKeys(), recurrentKeys(), axialKeys(), shareKeys(), teacherKeys()))

// TrainConfig is a loaded train.yaml: the values and where they came from.
type TrainConfig struct {
	Train
	// Machine is what train.machine describes; nil if that is not given.
	Machine *MachineConfig
	*loaded
}

// Identity is that of the keys, and of what train.machine describes: a mesh may depend on it.
func (c *TrainConfig) Identity() string {
	own := c.loaded.Identity()
	if c.Machine == nil {
		return own
	}
	sum := sha256.Sum256([]byte(own + c.Machine.Files()[0].SHA256))
	return hex.EncodeToString(sum[:])
}

// LoadTrain reads the configuration of a training run.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy.
func LoadTrain(src Sources) (*TrainConfig, error) {
	e, err := load(TrainSchema, src)
	if err != nil {
		return nil, err
	}
	c := &TrainConfig{loaded: e}
	e.fill(&c.Train)
	if c.Data.Split == (Split{}) {
		e.values["data.split.fractions.train"], e.values["data.split.fractions.validation"] = 0.7, 0.1
		e.fill(&c.Train)
	}
	faults := append(c.mergeTargetLeads(), c.check()...)
	if path := c.Train.Train.Machine; path != "" {
		var fault *exit.Error
		if c.Machine, err = LoadMachine(string(path)); errors.As(err, &fault) {
			faults = append(faults, fault)
		} else if err != nil {
			return nil, err
		}
	}
	return c, joinFaults(faults)
}

// check applies the rules between keys.
func (c *TrainConfig) check() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	d := c.Data

	faults = append(faults, c.checkLeads()...)
	for i, l := range d.Levels {
		if slices.Contains(d.Levels[:i], l) {
			add("data.levels", fmt.Sprintf("level %s is listed twice", l), "", "list each level once")
		}
	}
	single := slices.Contains(d.Levels, ensemble.SingleLevel)
	if single && len(d.Levels) > 1 {
		add("data.levels", "single is listed beside other levels", "it stands for the one level of each variable", "write levels: [single], or leave it out")
	}
	for i, v := range d.Variables {
		if known, ok := ensemble.VariableNamed(v); single && (!ok || known.OnManyLevels()) {
			add("data.variables", fmt.Sprintf("variable %s has no level of its own", v), "data.levels is [single]", "leave it out, or name its levels in data.levels")
		}
		if slices.Contains(d.Variables[:i], v) {
			add("data.variables", fmt.Sprintf("variable %s is listed twice", v), "", "list each variable once")
		}
	}
	if d.Grid.IsNamed() {
		if _, err := ensemble.NamedGrid(d.Grid.To); err != nil {
			add("data.grid.to", err.Error(), "", "name forecasts, analyses, or a grid such as 1.5deg")
		}
	}
	if d.Grid.To == "analyses" && len(d.Analyses) == 0 {
		add("data.grid.to", "data.grid.to is analyses and there are no data.analyses", "", "add data.analyses, or name another grid")
	}
	seen := map[string]bool{}
	for _, t := range d.Targets {
		if !slices.Contains(d.Variables, t.Variable) {
			add("data.targets", fmt.Sprintf("target %s is not one of data.variables", t.Variable),
				"the variables are "+strings.Join(d.Variables, ", "), "add it to data.variables")
		}
		for _, l := range t.Levels {
			if !slices.Contains(d.Levels, l) {
				add("data.targets", fmt.Sprintf("target %s at %s is not on one of data.levels", t.Variable, l),
					"the levels are "+formatList(d.Levels), "add it to data.levels")
			}
			if id := t.Variable + " at " + l.String(); seen[id] {
				add("data.targets", "target "+id+" is listed twice", "", "list each target once")
			} else {
				seen[id] = true
			}
		}
	}
	if n := d.Members.Use.N(); n > d.Members.Full {
		add("data.members.use", fmt.Sprintf("%d members are input, the full ensemble has %d", n, d.Members.Full), "",
			"use fewer, or raise data.members.full")
	} else if n <= d.SpreadDDOF {
		add("data.members.use", fmt.Sprintf("the spread of %d members with divisor %d - %d does not exist", n, n, d.SpreadDDOF), "",
			"use more members")
	}
	if l := d.Members.Minimum; l > d.Members.Use.N() || l > 0 && l <= d.SpreadDDOF {
		add("data.members.least", fmt.Sprintf("data.members.least is %d, data.members.use %d", l, d.Members.Use.N()), "a spread needs more members than data.spread_ddof",
			"give a number from "+fmt.Sprint(d.SpreadDDOF+1)+" to that of data.members.use")
	}
	if d.Members.Use.List != nil && d.Members.Sampling == "random" {
		add("data.members.sampling", "members are listed and to be chosen at random", "the two exclude each other",
			"give the number of members, or sampling: fixed")
	}
	if (d.DiskCache.Folder == "") != (d.DiskCache.Size == 0) {
		add("data.disk_cache.folder", "data.disk_cache has a folder or a size, and not both", "the cache is as large as it is told to be, where it is told to be",
			"give data.disk_cache.folder and data.disk_cache.size, or neither")
	}
	faults = append(faults, c.checkSplit()...)
	faults = append(faults, c.checkModel()...)
	faults = append(faults, c.checkStages()...)
	faults = append(faults, c.checkMembers()...)
	faults = append(faults, c.checkReference()...)
	faults = append(faults, c.checkSpatialInputs()...)
	faults = append(faults, c.checkClimate()...)
	faults = append(faults, c.checkCalibrate()...)
	faults = append(faults, c.checkHead()...)
	faults = append(faults, c.checkPrune()...)
	faults = append(faults, c.checkShare()...)
	faults = append(faults, c.checkTeacher()...)
	return append(faults, c.checkOptimizer()...)
}

// checkOptimizer: what one optimiser or rule reads is given to no other.
func (c *TrainConfig) checkOptimizer() []*exit.Error {
	var faults []*exit.Error
	t := c.Train.Train
	if t.TrustCoefficient > 0 && t.Optimizer != "lars" {
		faults = append(faults, c.fault("train.trust", "train.trust is given to "+t.Optimizer, "only lars has a trust coefficient",
			"remove it, or set train.optimizer: lars"))
	}
	if t.BaseBatchSize > 0 && t.LearningRateScaling == "none" {
		faults = append(faults, c.fault("train.base_batch", "train.base_batch is given and the learning rate is not scaled", "train.scale is none",
			"remove it, or set train.scale: linear or sqrt"))
	}
	return faults
}

// checkModel: the head, the loss and the data must belong together.
func (c *TrainConfig) checkModel() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	loss := c.Train.Train.Loss.Kind
	switch {
	case c.Model.Head == DistributionHead && slices.Contains(SpreadLosses, loss):
		add("train.loss.kind", "head distribution is trained with another loss than those of distributions", "train.loss.kind is "+string(loss),
			"set train.loss.kind: crps, or model.head: spread")
	case c.Model.Head == SpreadHead && !slices.Contains(SpreadLosses, loss):
		add("model.head", "head spread is trained with "+string(loss), "the spread of the full ensemble is a field, not an observation",
			"set train.loss.kind: mse, l1, ssim or ms_ssim, or model.head: distribution")
	case c.Model.Head == DistributionHead && len(c.Data.Analyses) == 0:
		add("model.head", "head distribution has no data.analyses", "it predicts the distribution of the analysis",
			"add data.analyses, or set model.head: spread")
	}
	return append(faults, c.checkKind()...)
}

func (c *TrainConfig) checkSplit() []*exit.Error {
	var faults []*exit.Error
	s := c.Data.Split
	parts := []struct {
		name string
		p    Period
	}{{"train", s.Train}, {"validation", s.Validation}, {"test", s.Test}}
	dated := false
	for _, part := range parts {
		dated = dated || !part.p.From.IsZero() || !part.p.To.IsZero()
	}
	for _, part := range parts {
		path := "data.split." + part.name
		switch {
		case dated && part.name != "test" && !part.p.isSet(), part.p.From.IsZero() != part.p.To.IsZero():
			faults = append(faults, c.fault(path+".from", path+" has no from and to", "a split by dates needs both ends of the training and validation periods",
				"give data.split."+part.name+".from and .to"))
		case part.p.isSet() && part.p.To.End().Before(part.p.From.Time):
			faults = append(faults, c.fault(path+".to", path+" ends before it begins", part.p.From.String()+" to "+part.p.To.String(), "exchange the two"))
		}
	}
	if f := s.Fractions; !dated && (f.Train <= 0 || f.Train+f.Validation > 1) {
		faults = append(faults, c.fault("data.split.fractions.train", "data.split.fractions leave nothing for training, or are more than all",
			fmt.Sprintf("training %g and validation %g", f.Train, f.Validation), "give shares whose sum is at most 1"))
	}
	for _, path := range []string{"data.split.fractions.train", "data.split.fractions.validation"} {
		if dated && c.values[path] != nil {
			faults = append(faults, c.fault(path, "the split is given by dates and by fractions", "the two exclude each other", "remove one of them"))
			break
		}
	}
	return faults
}

func formatList[T fmt.Stringer](items []T) string {
	return strings.Join(formatAll(items, T.String), ", ")
}
