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

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Train is train.yaml, the configuration of `ensemble train`.
type Train struct {
	Version   int       `key:"version"`
	Data      Data      `key:"data"`
	Model     Model     `key:"model"`
	Train     Training  `key:"train"`
	Baselines []string  `key:"baselines"`
	Regions   []string  `key:"regions"` // as score.ParseBox reads them
	Climate   Climate   `key:"climate"`
	Calibrate Calibrate `key:"calibrate"`
	Prune     Prune     `key:"prune"`
	Teacher   Teacher   `key:"teacher"`
}

// Data is the section data: input files, members, variables, targets and data split.
type Data struct {
	Forecasts          []Path                   `key:"forecasts"`
	Analyses           []Path                   `key:"analyses"`
	Store              Path                     `key:"store"`
	Memory             Bytes                    `key:"memory"`
	Prefetch           int                      `key:"prefetch"`
	DirectIO           bool                     `key:"direct_io"`
	DiskCache          DiskCache                `key:"disk_cache"`
	Peers              string                   `key:"peers"`
	AllowMissingChunks bool                     `key:"allow_missing_chunks"`
	IndexCache         Path                     `key:"index_cache"`
	Grid               Interpolation            `key:"grid"`
	Members            MemberPolicy             `key:"members"`
	Leads              []ensemble.Lead          `key:"leads"`
	TargetLead         ensemble.Lead            `key:"target_lead"`
	TargetLeads        []ensemble.Lead          `key:"target_leads"` // never empty once loaded
	Levels             []ensemble.Level         `key:"levels"`
	Variables          []string                 `key:"variables"`
	Targets            []Target                 `key:"targets"`
	Statistics         []StatisticChoice        `key:"statistics"`
	Intervals          Intervals                `key:"intervals"`
	Features           []string                 `key:"features"`
	Standardise        ensemble.Standardisation `key:"standardise"`
	LAS                LAS                      `key:"las"`
	Split              Split                    `key:"split"`
	SpreadDDOF         int                      `key:"spread_ddof"`
	Auxiliary          Auxiliary                `key:"auxiliary"`
	Naming
}

// DefaultPrefetch is the default of data.prefetch, in initialisations.
const DefaultPrefetch = 4

// Values of Data.Peers: whether ranks read data from the memory of other ranks.
const (
	PeersAuto   = "auto"
	PeersAlways = "always"
	PeersNever  = "never"
)

// DiskCache is the section data.disk_cache: a cache of the sample store on a local disk.
type DiskCache struct {
	Folder Path  `key:"folder"`
	Size   Bytes `key:"size"`
}

// MemberPolicy is the section data.members: the input members, and the size of the full ensemble.
type MemberPolicy struct {
	Use      Members `key:"use"`
	Minimum  int     `key:"minimum"` // 0: as Use
	Full     int     `key:"full"`
	Control  string  `key:"control"`  // "include" or "exclude"
	Sampling string  `key:"sampling"` // "fixed" or "random"
	MemberLayout
}

// Interpolation is the section data.grid: target grid and method of horizontal interpolation.
type Interpolation struct {
	To       string  `key:"to"`        // "forecasts", "analyses" or a name for ensemble.NamedGrid; empty: no interpolation
	Method   string  `key:"method"`    // "bilinear", "conservative" or "nearest"
	MinValid float64 `key:"min_valid"` // fraction of the interpolation weights, 0 to 1
}

// IsNamed reports whether the target grid is given by name, not by files.
func (p Interpolation) IsNamed() bool { return p.To != "" && p.To != "forecasts" && p.To != "analyses" }

// Target is a variable to predict, with its levels.
type Target struct {
	Variable  string           `key:"variable"`
	Levels    []ensemble.Level `key:"levels"`
	Statistic string           `key:"statistic"`
	Interval  ensemble.Lead    `key:"interval"`
}

// LAS is the section data.las: parameters of Local Area-wise Standardization.
type LAS struct {
	Window int     `key:"window"` // grid points
	Smooth float64 `key:"smooth"` // grid points
}

// Split is the section data.split. It divides the initialisations by date, or by fractions in the
// order of time.
type Split struct {
	Train      Period    `key:"train"`
	Validation Period    `key:"validation"`
	Test       Period    `key:"test"`
	Fractions  Fractions `key:"fractions"`
}

// IsByDate reports whether the split is defined by periods.
func (s Split) IsByDate() bool { return !s.Train.From.IsZero() }

// Period is a range of initialisations, both ends included.
type Period struct {
	From Date `key:"from"`
	To   Date `key:"to"`
}

// Period converts p to an ensemble.Period.
func (p Period) Period() ensemble.Period { return ensemble.Period{From: p.From.Time, To: p.To.End()} }

// isSet reports whether both ends are set.
func (p Period) isSet() bool { return !p.From.IsZero() && !p.To.IsZero() }

// Fractions are fractions of the initialisations in the order of time. The remainder after training
// and validation is the test data.
type Fractions struct {
	Train      float64 `key:"train"`
	Validation float64 `key:"validation"`
}

// SharedLevelFilters is the value of model.level_filters with which all levels share filters.
const SharedLevelFilters = "shared"

// Model is the section model: architecture, inputs and output of the network.
type Model struct {
	Kind         string  `key:"kind"`
	LevelFilters string  `key:"level_filters"`
	Base         int     `key:"base"`
	Stages       int     `key:"stages"`
	Dropout      float64 `key:"dropout"`
	Location     bool    `key:"location"`
	Season       bool    `key:"season"`
	Periodic     bool    `key:"periodic"`
	Head         Head    `key:"head"`
	Pretrained   Path    `key:"pretrained"`
	// ChannelsFrom is a run directory; the network has as many channels as that pruned network.
	ChannelsFrom Path      `key:"channels_from"`
	Method       Method    `key:"method"`
	Bias         BiasModel `key:"bias"`
	Members      string    `key:"members"`
	Pool         string    `key:"pool"`
	Encoder      Encoder   `key:"encoder"`
	Attention    string    `key:"attention"`
	Family       Family    `key:"family"`
	Degree       int       `key:"degree"`
	Bins         int       `key:"bins"`

	Embedding int    `key:"embedding"` // number of learned input fields; 0: none
	Reference string `key:"reference"` // NoReference or one of References

	LeadAxis   string   `key:"lead_axis"`
	Conditions []string `key:"conditions"`

	Recurrent Recurrent `key:"recurrent"`
	Axial     Axial     `key:"axial"`
	Maps      bool      `key:"maps"`

	CrossFit CrossFit `key:"cross_fit"`
	Share    Share    `key:"share"`
}

// Training is the section train: optimisation, loss, hardware and parallelism.
type Training struct {
	Epochs              int        `key:"epochs"`
	BatchSize           int        `key:"batch_size"`
	Accumulate          int        `key:"accumulate"`
	Optimizer           string     `key:"optimizer"`
	KFAC                KFAC       `key:"kfac"`
	TrustCoefficient    float64    `key:"trust_coefficient"` // trust coefficient of LARS; 0: default of the optimiser
	LearningRate        float64    `key:"learning_rate"`
	LearningRateScaling string     `key:"learning_rate_scaling"`
	BaseBatchSize       int        `key:"base_batch_size"` // 0: as BatchSize
	WeightDecay         float64    `key:"weight_decay"`
	Schedule            string     `key:"schedule"`
	Warmup              int        `key:"warmup"`
	Clip                float64    `key:"clip"`
	EMA                 Averaging  `key:"ema"`
	Loss                LossTerms  `key:"loss"`
	Seed                int        `key:"seed"`
	EarlyStop           EarlyStop  `key:"early_stop"`
	Checkpoint          Checkpoint `key:"checkpoint"`
	Networks            int        `key:"networks"`
	Device              string     `key:"device"`
	Threads             int        `key:"threads"`
	Memory              Bytes      `key:"memory"`
	OffloadFolder       Path       `key:"offload_folder"`
	Workspace           Bytes      `key:"workspace"`
	WithoutPasses       []string   `key:"without_passes"`
	Precision           string     `key:"precision"`
	Stages              Stages     `key:"stages"`
	Pretrain            Pretrain   `key:"pretrain"`
	Sizes               FieldSizes `key:"sizes"`
	WholeEpochs         float64    `key:"whole_epochs"` // part of the epochs, at the end
	Distribution
}

// DefaultStallTimeout is the default of train.stall_timeout.
const DefaultStallTimeout = 10 * time.Minute

// LossTerms is the section train.loss: the loss function and the weights of its terms.
type LossTerms struct {
	Kind     Loss      `key:"kind"`
	Spread   float64   `key:"spread"` // weight of the spread term
	Fairness Fairness  `key:"fairness"`
	Scales   []float64 `key:"scales"` // standard deviations in grid points, descending

	Threshold       []ensemble.VariableEvent `key:"threshold"`
	ThresholdWeight float64                  `key:"threshold_weight"`
	Extreme         float64                  `key:"extreme"`      // 0: equal weights
	LeadWeights     []float64                `key:"lead_weights"` // weight of each target lead; empty: equal weights
}

// EarlyStop is the section train.early_stop: training ends when the validation loss stops
// improving.
type EarlyStop struct {
	Patience int `key:"patience"` // epochs; 0: no early stopping
}

// Checkpoint is the section train.checkpoint: how often the state is saved, and how many are kept.
type Checkpoint struct {
	Every CheckpointInterval `key:"every"`
	Keep  int                `key:"keep"` // checkpoints besides the best
}

// FullEnsembleBaseline is the method that reads members which a prediction from fewer members lacks.
const FullEnsembleBaseline = "emos_grid_full"

// Baselines lists the names of the methods of postproc/baseline, in its order.
var Baselines = []string{"emos", "emos_grid", FullEnsembleBaseline,
	"emos_logistic", "emos_truncated_normal", "emos_truncated_logistic", "emos_censored_normal", "emos_censored_logistic", "emos_log_normal", "emos_csg", "samos",
	"emos_point", "emos_point_logistic", "emos_point_truncated_normal", "emos_point_truncated_logistic", "emos_point_censored_normal",
	"emos_point_censored_logistic", "emos_point_log_normal",
	"mbm", "mbm_crps", "quantile_map", "climatology"}

// Precisions lists the numeric types in which activations are stored and multiplied; package engine
// documents each.
var Precisions = []string{"f32", "bf16", "bf16_products", "f16", "tf32"}

// TrainSchema is the schema of train.yaml.
var TrainSchema = newSchema[Train]("train", slices.Concat([]schema.Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "baselines", Default: "[emos, emos_grid, climatology]", Check: OneOf(Baselines...), Example: "[emos, emos_grid, emos_point, mbm, climatology]",
		Help: "Baselines for comparison besides the raw ensemble, by the names of docs/verification.md. They are fitted to the training and validation data and scored on the same test data as the network."},
	{Path: "regions", Example: "[europe, \"alps=43:48:5:16\"]",
		Help: "Regions in which the test dates are scored besides the whole area: names, or NAME=SOUTH:NORTH:WEST:EAST in degrees, as --region of `ensemble verify`."},

	{Path: "data.forecasts", Required: true, Example: "[fc/*.grib2]",
		Help: "Ensemble forecast files (GRIB, NetCDF) and Zarr stores; patterns with * and ?, or directories."},
	{Path: "data.analyses", Example: "[an/*.nc]",
		Help: "Files of the verifying analyses, as data.forecasts. Required for scores and for heads that predict the analysis."},
	{Path: "data.store", Example: "store",
		Help: "Directory of a sample store, written by `ensemble data prepare` from the forecasts and analyses; training reads it instead of the files."},
	{Path: "data.memory", Default: "4GiB", Example: "32GiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Memory of a process for caching data of data.store between epochs, shared by its shards of train.mesh; the rest is read again in each epoch. 0: no limit. Without a store all data are kept in memory."},
	{Path: "data.prefetch", Default: strconv.Itoa(DefaultPrefetch), Check: Between(1, 1024), Example: "8", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Number of initialisations of data.store that are read ahead, in parallel. Each needs the memory of one initialisation, or of the shard of the rank."},
	{Path: "data.direct_io", Default: "false", Example: "true", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Whether data.store is read with direct I/O, bypassing the page cache, if the file system supports it: faster on fast disks for a store larger than memory."},
	{Path: "data.disk_cache.folder", Example: "/local/scratch", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Directory on a fast local disk for caching data of data.store that exceed data.memory, for the duration of the training."},
	{Path: "data.disk_cache.size", Default: "0", Example: "200GiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Disk space of a process in data.disk_cache.folder, shared by its shards of train.mesh."},
	{Path: "data.peers", Default: PeersAlways, Check: OneOf(PeersAuto, PeersAlways, PeersNever), Example: PeersAlways, MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Whether ranks with the same part of the samples read data.store once for all, and samples from the memory of each other over TCP. always; never; auto: if that was recently faster than the file system."},
	{Path: "data.allow_missing_chunks", Default: "false", Example: "true",
		Help: "Whether absent chunks of Zarr stores are accepted: as the fill value in version 3, as missing values in version 2. Default: an error, since chunks may have been lost."},
	{Path: "data.index_cache", Example: "/var/cache/ensemble", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Directory for cached indexes of GRIB files, which make reopening faster. Default: no cache."},
	{Path: "data.grid.to", Default: "", Example: "1.5deg",
		Help: "Target grid to which all fields are interpolated: forecasts (the grid of most forecast fields), analyses, or a name. 1.5deg includes the poles, 360x180 has cell centres, F48 is a Gaussian grid, 0.5deg@72/-20/30.5/44.5 an area (north/west/south/east). The grid is saved with the model, and prediction interpolates its input to it. Empty: no interpolation; all fields have one grid."},
	{Path: "data.grid.method", Default: "bilinear", Check: OneOf("bilinear", "conservative", "nearest"), Example: "conservative",
		Help: "Interpolation method: bilinear, conservative (area-weighted means, for precipitation), or nearest."},
	{Path: "data.grid.min_valid", Default: "0.5", Check: Between(0.001, 1), Example: "0.75",
		Help: "Smallest fraction of interpolation weights on valid values; below it the target point is missing."},
	{Path: "data.members.use", Default: "5", Example: "[0, 1, 2, 3, 4]",
		Help: "Input members: their number, or a list."},
	{Path: "data.members.minimum", Check: AtLeast(1), Example: "3",
		Help: "Smallest number of input members in training: each sample uses a random number from this one to data.members.use, so that the model supports any of these. Default: data.members.use."},
	{Path: "data.members.full", Check: AtLeast(2), Example: "10",
		Help: "Number of members of the full ensemble, whose spread is the target of model.head: spread and with which scores compare. Default: all members of the forecasts."},
	{Path: "data.members.control", Default: "include", Check: OneOf(ensemble.IncludeControl, ensemble.ExcludeControl, ensemble.NoControl), Example: ensemble.ExcludeControl,
		Help: "Use of the control. include: as a member; exclude: not at all; none: there is none. With none no member is special: all, also number 0, are equal draws, and features that depend on which member is the first are refused."},
	{Path: "data.members.sampling", Default: "fixed", Check: OneOf("fixed", "random"), Example: "random",
		Help: "Selection of input members in training. fixed: always the same; random: drawn for each sample."},
	{Path: "data.leads", Required: true, Check: AtLeast(0), Example: "[0h, 24h, 48h]",
		Help: "Input leads, ascending."},
	{Path: "data.levels", Required: true, Example: "[850hPa, 500hPa]",
		Help: "Input levels, the depth axis of the network. [single] for variables with one level each, such as 2t, msl and tp."},
	{Path: "data.variables", Required: true, Example: "[t, gh, u, v, vo]",
		Help: "Input variables, by the short names that `ensemble inspect` prints."},
	{Path: "data.targets", Required: true, Example: "[{variable: t, levels: [850hPa]}]",
		Help: "Variables to predict, each with its levels."},
	{Path: "data.targets[].variable", Required: true, Example: "t",
		Help: "One of data.variables."},
	{Path: "data.targets[].levels", Required: true, Example: "[850hPa]", ExampleIn: exampleLevels,
		Help: "Levels of this target, from data.levels."},
	{Path: "data.features", Default: "[spread, first, offset]", Check: OneOf(featureNames()...), Example: "[spread, first]",
		Help: featuresHelp()},
	{Path: "data.standardise", Default: "global", Check: OneOf("global", "las"), Example: "las",
		Help: "Standardisation of inputs. global: one mean and scale for each variable and level; las: maps of both (Local Area-wise Standardization). Fitted to the training data only."},
	{Path: "data.las.window", Default: "7", Check: AtLeast(1), Example: "7",
		Help: "Window size of las in grid points."},
	{Path: "data.las.smooth", Default: "10", Check: AtLeast(0), Example: "10",
		Help: "Standard deviation of the Gaussian filter for the maps of las, in grid points."},
	{Path: "data.split.train.from", Example: "1982-01-01", Help: "First initialisation for training."},
	{Path: "data.split.train.to", Example: "1983-09-30", Help: "Last initialisation for training."},
	{Path: "data.split.validation.from", Example: "1983-10-01", Help: "First initialisation for validation."},
	{Path: "data.split.validation.to", Example: "1983-12-31", Help: "Last initialisation for validation."},
	{Path: "data.split.test.from", Example: "1984-01-10", Help: "First initialisation for the test."},
	{Path: "data.split.test.to", Example: "1984-12-31", Help: "Last initialisation for the test."},
	{Path: "data.split.fractions.train", Check: Between(0, 1), Example: "0.7",
		Help: "Fraction of the initialisations, the earliest, for training, instead of periods. Default without periods: 0.7."},
	{Path: "data.split.fractions.validation", Check: Between(0, 1), Example: "0.1",
		Help: "Fraction of the initialisations after the training data for validation; the rest is test data. Default without periods: 0.1."},
	{Path: "data.spread_ddof", Default: "1", Check: OneOf("0", "1"), Example: "1",
		Help: "Delta degrees of freedom of the spread in input and target: the divisor is members minus this."},

	{Path: "model.kind", Default: unet3d.UNetKind.Name, Check: OneOf(unet3d.KindNames(func(*unet3d.Kind) bool { return true })...), Example: "unet3d",
		Help: kindHelp()},
	{Path: "model.level_filters", Default: SharedLevelFilters, Check: OneOf(SharedLevelFilters, "full", "affine", "separable"), Example: "affine",
		Help: "Filters of the U-Net across levels. shared: one filter for all levels; full: a separate filter for each level; affine: one filter with a factor for each level; separable: one horizontal filter, then a vertical filter for each level."},
	{Path: "model.base", Default: "16", Check: Between(1, 1024), Example: "32",
		Help: "Channels of the first stage."},
	{Path: "model.stages", Default: "3", Check: Between(1, 6), Example: "3",
		Help: "Number of times the U-Net halves the resolution."},
	{Path: "model.dropout", Default: "0", Check: BetweenHalfOpen(0, 1), Example: "0.1",
		Help: "Dropout: fraction of channels that are set to 0 in training."},
	{Path: "model.location", Default: "true", Example: "true",
		Help: "Whether latitude and longitude are inputs."},
	{Path: "model.season", Default: "true", Example: "true",
		Help: "Whether the time of year is an input."},
	{Path: "model.periodic", Default: "true", Example: "true",
		Help: "Whether convolutions have periodic padding in longitude on global grids."},
	{Path: "model.head", Default: string(DistributionHead), Check: OneOf(SpreadHead, DistributionHead, MembersHead), Example: string(DistributionHead),
		Help: "Output of the network. spread: the spread of the full ensemble; distribution: the distribution of the analysis; members: corrected input members."},
	{Path: "model.pretrained", Example: "models/published/weights.safetensors",
		Help: "File of pretrained weights (safetensors). Parameters with matching name and shape are used, all others are initialised randomly."},
	{Path: "model.channels_from", Example: "runs/pruned",
		Help: "Run directory of a network with pruned channels: the new network has the same numbers of channels, with its own random weights."},

	{Path: "train.epochs", Default: "60", Check: Between(1, 1e6), Example: "60", MayChangeOnResume: true,
		Help: "Largest number of epochs."},
	{Path: "train.batch_size", Default: "4", Check: Between(1, 65536), Example: "4",
		Help: "Batch size: samples a forward and backward pass."},
	{Path: "train.accumulate", Default: "1", Check: Between(1, 65536), Example: "8",
		Help: "Gradient accumulation: number of batches whose mean gradient makes one optimiser step. Needs the memory of one batch; equivalent to a larger batch, except for batch statistics."},
	{Path: "train.optimizer", Default: "adamw", Check: OneOf("adamw", "adam", "sgd", "lars", "lamb", KFACOptimizer), Example: "adamw",
		Help: "Optimiser. sgd and lars have a momentum of 0.9. kfac preconditions gradients by Kronecker factors (docs/training.md)."},
	{Path: "train.trust_coefficient", Check: Above(0), Example: "0.001",
		Help: "Trust coefficient of lars: a step changes a filter by about learning_rate times this fraction of its norm. Default: 0.001."},
	{Path: "train.learning_rate", Default: "0.001", Check: Above(0), Example: "0.001",
		Help: "Learning rate: the maximum of the schedule, before train.learning_rate_scaling."},
	{Path: "train.learning_rate_scaling", Default: "none", Check: OneOf("linear", "sqrt", "none"), Example: "linear",
		Help: "Scaling of the learning rate with the samples of a step, batch_size times accumulate. linear: proportional to their ratio to base_batch_size; sqrt: to its square root (for adaptive optimisers such as adam); none."},
	{Path: "train.base_batch_size", Check: Between(1, 1e9), Example: "4",
		Help: "Samples a step for which learning_rate is specified, for train.learning_rate_scaling. Default: batch_size."},
	{Path: "train.weight_decay", Default: "0.0001", Check: AtLeast(0), Example: "0.0001",
		Help: "Decoupled weight decay of adamw and lamb; L2 penalty of other optimisers."},
	{Path: "train.schedule", Default: "cosine", Check: OneOf("constant", "cosine", "triangular2", "plateau"), Example: "cosine",
		Help: "Learning rate schedule."},
	{Path: "train.warmup", Default: "0", Check: AtLeast(0), Example: "100",
		Help: "Number of warm-up steps, over which the learning rate increases linearly from zero, or with train.learning_rate_scaling from the unscaled learning_rate."},
	{Path: "train.clip", Default: "1", Check: AtLeast(0), Example: "1",
		Help: "Gradient clipping: largest norm of the gradient; 0: no clipping."},
	{Path: "train.ema", Default: "0", Example: "10 epochs",
		Help: "Exponential moving average of the weights: the time after which old weights have a share of 1/e, such as 10 epochs or 500 steps, or the decay of each step, such as 0.999. The averaged weights are validated and saved in the model, with running statistics of batch norms computed for them. 0: no average."},
	{Path: "train.loss.kind", Default: string(CRPSLoss), Check: OneOf(Losses...), Example: string(CRPSLoss),
		Help: "Loss function. crps: CRPS of the predicted distribution against the analysis; for head members, of the normal distribution with their mean and standard deviation. pinball: for a Bernstein quantile function, at 99 levels. cross_entropy: for a histogram. crps_members: CRPS of the members. mse, l1, ssim, ms_ssim: distances from the spread of the full ensemble."},
	{Path: "train.loss.spread", Default: "0", Check: AtLeast(0), Example: "0.5",
		Help: "Weight of the loss of the full ensemble's spread, relative to the main loss. 0: it is not trained, so it is neither scored nor published."},
	{Path: "train.seed", Default: "1", Check: AtLeast(0), Example: "1",
		Help: "Seed of all random numbers."},
	{Path: "train.early_stop.patience", Default: "10", Check: AtLeast(0), Example: "10",
		Help: "Early stopping: epochs without improvement of the validation loss after which training ends; 0: never."},
	{Path: "train.checkpoint.every", Default: autoInterval, Example: "500 steps", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Training between checkpoints, which is the most that a crash loses: a time, steps or epochs; of several, joined by or, the one that ends first. auto: 10 min, or 1 epoch once training has taken 100 times as long as the last checkpoint. A checkpoint is also written at the end of each network. Results do not depend on it."},
	{Path: "train.checkpoint.keep", Default: "2", Check: AtLeast(2), Example: "2", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Number of checkpoints that are kept besides the best one."},
	{Path: "train.networks", Default: "1", Check: Between(1, 100), Example: "3",
		Help: "Number of networks that are trained with different seeds and averaged."},
	{Path: "train.device", Default: "cpu", Check: OneOf("cpu", "cuda", "auto"), Example: "auto", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Device. cpu; cuda: an NVIDIA GPU; auto: a GPU if present, else the processor. Each rank of a node uses a different GPU."},
	{Path: "train.threads", Default: "0", Check: Between(0, 4096), Example: "2", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Threads of a process, shared by its shards of train.mesh; 0: all available."},
	{Path: "train.memory", Default: "0", Example: "4GiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Memory limit of a process for a training step, shared by its shards of train.mesh: inputs, activations, gradients and workspace. To stay within it the compiler chooses slower kernels, recomputes activations, or on a GPU offloads them to the host; results are bit-identical. 0: no limit, or the free memory of a GPU."},
	{Path: "train.offload_folder", Example: "/local/scratch", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Folder on a local disk. Activations that do not fit train.memory are copied to a file in it, and back, where that takes less time than recomputation; results are bit-identical. The file has no name and ends with the process. On processors only. Not set: they are recomputed."},
	{Path: "train.workspace", Default: "0", Example: "64MiB", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Memory limit of the kernels' workspace, a part of train.memory. Slower kernels are chosen to stay within it; results are bit-identical. 0: no limit."},
	{Path: "train.without_passes", Check: OneOf(pass.Optional()...), Example: "[fuse-chains]",
		Help: "Optional compiler passes that are left out of the training step, to measure their effect. `ensemble engine passes` lists all, and which change results by rounding. Default: none."},
	{Path: "train.precision", Default: "f32", Check: OneOf(Precisions...), Example: "bf16",
		Help: "Precision of activations in training and prediction. f32; bf16: stored in half of the memory, with f32 arithmetic. Weights, their gradients, statistics and the loss are always f32. bf16_products: convolutions also multiply bf16 with f32 accumulation, on processors with AVX512_BF16 only. f16: for GPUs, with three more bits than bf16 and matrix units on V100, too; dynamic loss scaling, steps that overflow are skipped. tf32: f32 storage, and GPUs round the factors of convolutions to 11 bits; f32 elsewhere."},
	{Path: "train.mesh", Default: "", Example: "data:2 lon:4", MayChangeOnResume: true,
		Help: "Mesh of ranks over which a step is distributed: axes data (samples of a batch), level, lat, lon and channel, each with its number of ranks; lon:4@2x11x22=channel redistributes fields of that size along another axis. Empty or auto: the fastest mesh on train.machine, as `ensemble plan` predicts it. A mesh with more shards than ranks is distributed over the ranks (a process without launcher has all shards), and results do not depend on the number of ranks. With train.pipeline: the mesh of the ranks that compute a stage together."},
	{Path: "train.machine", Example: "machine.yaml", MayChangeOnResume: true,
		Help: "Machine description (docs/formats/machine.md) for train.mesh: auto and `ensemble plan`. Default: a typical machine; for `ensemble plan`, nodes like this one."},
	{Path: "train.stall_timeout", Default: formatDuration(DefaultStallTimeout), Check: Above(0), Example: "2m", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Time after which a rank that does not respond is considered lost and the MPI job ends, to be resumed from its last checkpoint. It must exceed the longest step and the reading of data on the slowest node."},
	{Path: "train.shard_optimizer", Default: "false", Example: "true", MayChangeOnResume: true, OutsideIdentity: true,
		Help: "Whether the optimiser state is sharded over the ranks of an MPI job: each rank keeps the moments of its shard of the parameters and updates it. Saves memory (for adamw two values a parameter, except those of the shard); results are bit-identical."},
}, memberLayoutKeys("data.members."), namingKeys("data."), statisticKeys(), biasKeys(), compressionKeys(), exchangeKeys(), pipelineKeys(), fieldSizeKeys(), stageKeys(), pretrainKeys(), memberKeys(), referenceKeys(), spatialInputKeys(), climateKeys(), calibrateKeys(), headKeys(), pruneKeys(), kfacKeys(), leadKeys(), recurrentKeys(), axialKeys(), shareKeys(), teacherKeys()))

// exampleLevels is an example of the levels of a target, from its other keys.
func exampleLevels(target map[string]any) string {
	name, _ := target["variable"].(string)
	if v, ok := ensemble.VariableNamed(name); ok && !v.OnManyLevels() {
		return "[single]"
	}
	return "[850hPa]"
}

// TrainConfig is a loaded train.yaml: its values and their origins.
type TrainConfig struct {
	Train
	// Machine is the loaded train.machine; nil if it is not set.
	Machine *MachineConfig
	*Loaded
}

// Identity is the SHA-256 of all keys that can change results, and of the file of train.machine, on
// which the mesh may depend.
func (c *TrainConfig) Identity() string {
	own := c.Loaded.Identity()
	if c.Machine == nil {
		return own
	}
	sum := sha256.Sum256([]byte(own + c.Machine.Files()[0].SHA256))
	return hex.EncodeToString(sum[:])
}

// LoadTrain loads train.yaml and the machine description that it names.
//
// Errors: exit 64 with all faults, each with its position and a fix.
func LoadTrain(src Sources) (*TrainConfig, error) {
	e, err := Load(TrainSchema, src)
	if err != nil {
		return nil, err
	}
	c := &TrainConfig{Loaded: e}
	e.Fill(&c.Train)
	c.setDefaultFeatures()
	if c.Data.Split == (Split{}) {
		e.values["data.split.fractions.train"], e.values["data.split.fractions.validation"] = 0.7, 0.1
		e.Fill(&c.Train)
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
	if err := JoinFaults(faults); err != nil {
		return nil, err
	}
	return c, nil
}

// check checks the rules between keys, of all sections.
func (c *TrainConfig) check() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	d := c.Data

	faults = append(faults, c.checkLeads()...)
	faults = append(faults, c.checkStatistics()...)
	for i, l := range d.Levels {
		if slices.Contains(d.Levels[:i], l) {
			add("data.levels", fmt.Sprintf("level %s is listed twice", l), "", "list each level once")
		}
	}
	single := slices.Contains(d.Levels, ensemble.SingleLevel)
	if single && len(d.Levels) > 1 {
		add("data.levels", "single cannot be combined with other levels", "it denotes the only level of each variable", "write levels: [single], or remove single")
	}
	for i, v := range d.Variables {
		if known, ok := ensemble.VariableNamed(v); single && (!ok || known.OnManyLevels()) {
			what, fix := fmt.Sprintf("variable %s has several levels", v), "remove it, or list its levels in data.levels"
			if near := nearest.Find(v, singleLevelNames()); !ok && near != "" {
				what, fix = fmt.Sprintf("variable %s has several levels, as every one outside the vocabulary", v), "did you mean `"+near+"`? write `variables: "+replaced(d.Variables, v, near)+"`"
			}
			add("data.variables", what, "data.levels is [single]", fix)
		}
		if slices.Contains(d.Variables[:i], v) {
			add("data.variables", fmt.Sprintf("variable %s is listed twice", v), "", "list each variable once")
		}
	}
	if d.Grid.IsNamed() {
		if _, err := ensemble.NamedGrid(d.Grid.To); err != nil {
			add("data.grid.to", err.Error(), "", "set forecasts, analyses, or a grid such as 1.5deg")
		}
	}
	if d.Grid.To == "analyses" && len(d.Analyses) == 0 {
		add("data.grid.to", "data.grid.to is analyses without data.analyses", "", "add data.analyses, or set another grid")
	}
	seen := map[string]bool{}
	for _, t := range d.Targets {
		if !slices.Contains(d.Variables, t.Variable) {
			add("data.variables", fmt.Sprintf("target %s is not one of data.variables", t.Variable),
				"the variables are "+strings.Join(d.Variables, ", "), "write `variables: "+replaced(append(slices.Clone(d.Variables), t.Variable), "", "")+"`, or predict one of these")
		}
		for _, l := range t.Levels {
			if !slices.Contains(d.Levels, l) {
				levels := "[" + FormatList(append(slices.Clone(d.Levels), l)) + "]"
				if l == ensemble.SingleLevel {
					levels = "[single]"
				}
				add("data.levels", fmt.Sprintf("target %s at %s is not on one of data.levels", t.Variable, l),
					"the levels are "+FormatList(d.Levels), "write `levels: "+levels+"`, or predict it on one of these")
			}
			if id := t.Variable + " at " + l.String(); seen[id] {
				add("data.targets", "target "+id+" is listed twice", "", "list each target once")
			} else {
				seen[id] = true
			}
		}
	}
	if n := d.Members.Use.N(); n > d.Members.Full && d.Members.Full > 0 {
		add("data.members.use", fmt.Sprintf("data.members.use is %d, want at most data.members.full, %d", n, d.Members.Full), "",
			fmt.Sprintf("write `use: %d`, or increase data.members.full", d.Members.Full))
	} else if n <= d.SpreadDDOF {
		add("data.members.use", fmt.Sprintf("the spread of %d members with divisor %d - %d is undefined", n, n, d.SpreadDDOF), "",
			"use more members")
	}
	if l := d.Members.Minimum; l > d.Members.Use.N() || l > 0 && l <= d.SpreadDDOF {
		add("data.members.minimum", fmt.Sprintf("data.members.minimum is %d, want %d to %d", l, d.SpreadDDOF+1, d.Members.Use.N()), "the spread needs more members than data.spread_ddof",
			"set a number from "+fmt.Sprint(d.SpreadDDOF+1)+" to data.members.use")
	}
	if d.Members.Use.List != nil && d.Members.Sampling == "random" {
		add("data.members.sampling", "random sampling with a list of members", "they are mutually exclusive",
			"give the number of members, or sampling: fixed")
	}
	if (d.DiskCache.Folder == "") != (d.DiskCache.Size == 0) {
		add("data.disk_cache.folder", "data.disk_cache needs both folder and size", "",
			"set data.disk_cache.folder and data.disk_cache.size, or neither")
	}
	faults = append(faults, c.checkRegions()...)
	faults = append(faults, c.checkSplit()...)
	faults = append(faults, c.checkModel()...)
	faults = append(faults, c.checkStages()...)
	faults = append(faults, c.checkMembers()...)
	faults = append(faults, c.checkExchangeable()...)
	faults = append(faults, c.checkReference()...)
	faults = append(faults, c.checkSpatialInputs()...)
	faults = append(faults, c.checkClimate()...)
	faults = append(faults, c.checkCalibrate()...)
	faults = append(faults, c.checkHead()...)
	faults = append(faults, c.checkPrune()...)
	faults = append(faults, c.checkShare()...)
	faults = append(faults, c.checkCompression()...)
	faults = append(faults, c.checkExchange()...)
	faults = append(faults, c.checkPipeline()...)
	faults = append(faults, c.checkTeacher()...)
	faults = append(faults, c.checkKFAC()...)
	faults = append(faults, c.checkSizes()...)
	faults = append(faults, c.checkPretrain()...)
	faults = append(faults, c.checkOffloadFolder()...)
	return append(faults, c.checkOptimizer()...)
}

// singleLevelNames lists the variables of the vocabulary that have one level only.
func singleLevelNames() (out []string) {
	for _, v := range ensemble.Variables {
		if !v.OnManyLevels() {
			out = append(out, v.Name)
		}
	}
	return out
}

// replaced formats a list of words with another one in place of one of them.
func replaced(words []string, old, by string) string {
	out := slices.Clone(words)
	for i, w := range out {
		if w == old {
			out[i] = by
		}
		out[i] = Quote(out[i])
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// checkOptimizer checks that keys of one optimiser or scaling rule are not set for others.
func (c *TrainConfig) checkOptimizer() []*exit.Error {
	var faults []*exit.Error
	t := c.Train.Train
	if usesLARS := t.Optimizer == "lars" || t.Optimizer == KFACOptimizer && t.KFAC.Rule == "lars"; t.TrustCoefficient > 0 && !usesLARS {
		faults = append(faults, c.Fault("train.trust_coefficient", "train.trust_coefficient is not used by "+t.Optimizer, "only lars has a trust coefficient",
			"remove it, or set train.optimizer: lars"))
	}
	if t.BaseBatchSize > 0 && t.LearningRateScaling == "none" {
		faults = append(faults, c.Fault("train.base_batch_size", "train.base_batch_size without scaling of the learning rate", "train.learning_rate_scaling is none",
			"remove it, or set train.learning_rate_scaling: linear or sqrt"))
	}
	return faults
}

// checkModel checks that head, loss and data are compatible.
func (c *TrainConfig) checkModel() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	loss := c.Train.Train.Loss.Kind
	switch {
	case c.Model.Head == DistributionHead && slices.Contains(SpreadLosses, loss):
		add("train.loss.kind", "head distribution needs a loss of distributions", "train.loss.kind is "+string(loss),
			"set train.loss.kind: crps, or model.head: spread")
	case c.Model.Head == SpreadHead && !slices.Contains(SpreadLosses, loss):
		add("model.head", "head spread does not support loss "+string(loss), "its target is a spread field, not an observation",
			"set train.loss.kind: mse, l1, ssim or ms_ssim, or model.head: distribution")
	case c.Model.Head == DistributionHead && len(c.Data.Analyses) == 0:
		add("model.head", "head distribution needs data.analyses", "it predicts the distribution of the analysis",
			schema.UnderSection("data.analyses", "add", "[an]")+" with the folder or files of the analyses; or set model.head: spread and train.loss.kind: mse")
	}
	return append(faults, c.checkKind()...)
}

// checkSplit checks that the split is defined either by periods or by fractions, and is possible.
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
			faults = append(faults, c.Fault(path+".from", path+" needs from and to", "a split by dates needs both ends of the training and validation periods",
				"set data.split."+part.name+".from and .to"))
		case part.p.isSet() && part.p.To.End().Before(part.p.From.Time):
			faults = append(faults, c.Fault(path+".to", path+" ends before it begins", part.p.From.String()+" to "+part.p.To.String(), "swap the two"))
		}
	}
	if f := s.Fractions; !dated && (f.Train <= 0 || f.Train+f.Validation > 1) {
		faults = append(faults, c.Fault("data.split.fractions.train", "invalid data.split.fractions",
			fmt.Sprintf("train %g, validation %g; want train above 0 and a sum of at most 1", f.Train, f.Validation), "set fractions whose sum is at most 1"))
	}
	for _, path := range []string{"data.split.fractions.train", "data.split.fractions.validation"} {
		if dated && c.values[path] != nil {
			faults = append(faults, c.Fault(path, "the split is defined by dates and by fractions", "they are mutually exclusive", "remove one of them"))
			break
		}
	}
	return faults
}

// FormatList formats items, separated by commas.
func FormatList[T fmt.Stringer](items []T) string {
	return strings.Join(formatAll(items, T.String), ", ")
}
