package archtest

// Module is the path of this module.
const Module = "github.com/ensemble-weather/ensemble"

// A layer is a package, or with /... a folder of packages, and what it may import of
// ours. The longest pattern that matches a package is its layer. Packages of one
// folder pattern may import each other.
type layer struct {
	pattern string
	may     []string
	why     string
}

var layers = []layer{
	{"internal/...", nil,
		"what several rooms need and none owns stands below all of them"},
	{"ensemble", []string{"internal/exit", "internal/fieldmath"},
		"the domain is only the domain: it must be readable without knowing files, networks or tensors"},
	{"postproc/dist", nil,
		"a formula is written once, where loss, score and baseline can all reach it"},
	{"engine/...", []string{"postproc/dist", "internal/..."},
		"the compiler knows tensors and no weather"},
	{"unet3d", []string{"engine/...", "internal/..."},
		"a network is built of ops; data and domain reach it as tensors"},
	{"spatial/...", []string{"engine/...", "internal/..."},
		"splitting a sample over ranks works on any graph, so it may know no network"},
	{"io/...", []string{"ensemble", "internal/..."},
		"readers and writers turn foreign bytes into domain types; they never compute"},
	{"postproc/...", []string{"ensemble", "postproc/dist", "internal/..."},
		"statistics work on fields, whoever made them"},
	{"ensemble/regrid", []string{"ensemble"},
		"interpolation is geometry of the domain's grids: readers must not compute, and jobs and statistics may both need it"},
	{"ensemble/config", []string{"ensemble", "postproc/dist", "unet3d", "internal/..."},
		"the schema speaks the domain's words; what a kind of network or a family of distributions can do is said by their tables only"},
	{"ensemble/record", []string{"ensemble/config", "postproc/score", "internal/..."},
		"what is kept of an experiment must be readable and comparable without the jobs that made it"},
	{"ensemble/demo", []string{"ensemble", "io/...", "internal/..."},
		"the demo's atmosphere makes files like any other source; it knows no network"},
	{"ensemble/demo/demotest", []string{"ensemble/demo", "ensemble/config", "io/decode", "internal/..."},
		"tests of several packages of jobs train on the same weather"},
	{"ensemble/team", []string{"ensemble", "spatial/...", "engine/graph", "internal/..."},
		"ranks that share a job cut fields of any network, so they may know none"},
	{"ensemble/model", []string{"ensemble", "ensemble/config", "ensemble/model/task", "ensemble/model/network", "ensemble/team", "ensemble/regrid", "engine/...", "unet3d", "spatial/...", "io/unit", "postproc/...", "internal/..."},
		"what a model is must be readable without the jobs that train and use it"},
	{"ensemble/model/network", []string{"ensemble", "ensemble/config", "ensemble/model/task", "ensemble/team", "engine/...", "unet3d", "spatial/...", "postproc/...", "internal/..."},
		"a network of the domain is built of a task; it knows no files and no model that has it"},
	{"ensemble/model/task", []string{"ensemble", "ensemble/config", "ensemble/team", "ensemble/regrid", "engine/graph", "engine/ckpt", "spatial/...", "io/unit", "postproc/...", "internal/..."},
		"what is predicted, and from what, does not depend on the network that does it"},
	{"ensemble/doctor", []string{"engine/...", "spatial/...", "io/decode", "internal/..."},
		"what a machine has can be said before any job, so it knows none"},
	{"ensemble/selftest", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/doctor", "ensemble/run/...", "engine", "engine/...", "io", "io/...", "postproc/score", "internal/..."},
		"an installation is tried by what users call: the jobs, and all below them"},
	{"ensemble/exchange", []string{"ensemble", "ensemble/config", "ensemble/model/...", "engine", "engine/...", "unet3d", "io/product", "internal/..."},
		"weights of other programs are read and written without any job"},
	{"ensemble/run/...", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/doctor", "ensemble/exchange", "ensemble/model/...", "ensemble/regrid", "ensemble/team", "engine/...", "unet3d", "spatial/...", "io/...", "postproc/...", "internal/..."},
		"the jobs join the rooms; nothing else does"},
	{"ensemble/run/runtest", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/demo/demotest", "ensemble/exchange", "ensemble/model/...", "ensemble/regrid", "engine/...", "io/...", "postproc/...", "internal/..."},
		"tests of every job use it, so it may know none"},
	{"ensemble/run/train/traintest", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/demo/demotest", "ensemble/run/...", "ensemble/team", "spatial/...", "internal/..."},
		"tests of several jobs train, and these trainings are made in one way"},
	{"ensemble/experiment", []string{"ensemble/...", "ensemble", "engine/...", "unet3d", "io/...", "postproc/...", "internal/..."},
		"an experiment calls the jobs as anyone would, and no job knows of it"},
	{"ensemble/serve", []string{"ensemble", "ensemble/config", "ensemble/run/...", "io/product", "postproc/report", "internal/..."},
		"the resident program issues by the jobs and shows what they published; no job knows of it"},
	{"cmd/ensemble", []string{"ensemble/run/...", "ensemble/demo", "ensemble/doctor", "ensemble/exchange", "ensemble/model/...", "ensemble/experiment", "ensemble/selftest", "ensemble/serve", "ensemble/team", "ensemble/config", "io/product", "postproc/score", "internal/..."},
		"a subcommand is flags in, one call, exit code out"},
	{"cmd/ensemble-decode", []string{"io/...", "ensemble", "internal/..."},
		"the child decodes and encodes; it knows no job"},
	{"notebooks", []string{"ensemble", "ensemble/run/...", "ensemble/config", "engine", "engine/graph", "spatial", "spatial/comm", "io", "io/product", "postproc/report", "postproc/score", "unet3d", "internal/..."},
		"cells of notebooks call it and nothing else, so it shows the jobs, and what engine and ranks have to be looked at"},
	{"experiments/...", []string{"ensemble/run/...", "ensemble/experiment", "ensemble/config", "internal/..."},
		"an experiment uses the public face, as any other program would"},
	{"benchmarks/...", []string{"ensemble/run/...", "ensemble/model/...", "ensemble", "engine/...", "io/...", "internal/..."},
		"benchmarks measure the networks through the public face, single operations through the engine, and readers as jobs use them"},
	{"scripts/...", nil,
		"tools of the build work before the program does"},
}

// A home is the one place of an outside module.
type home struct {
	module string // import path prefix
	homes  []string
	why    string
}

var homes = []home{
	{"github.com/spf13/viper", []string{"ensemble/config"},
		"viper lower-cases and merges keys; only the schema may hide that"},
	{"go.yaml.in/yaml/v3", []string{"ensemble/config"},
		"there is one way to read YAML: strictly"},
	{"github.com/spf13/cobra", []string{"cmd/ensemble"},
		"libraries have no command line"},
	{"github.com/apache/arrow/go/v15", []string{"io/table"},
		"Arrow is large and its versions move; one package to change"},
	{"github.com/klauspost/compress", []string{"io/zarr"},
		"compressed bytes from elsewhere are decoded under limits, in one place"},
	{"github.com/klauspost/cpuid/v2", []string{"internal/cpuinfo"},
		"features have the names of our tables and records"},
	{"github.com/pierrec/lz4/v4", []string{"io/zarr"},
		"compressed bytes from elsewhere are decoded under limits, in one place"},
	{"github.com/fhs/go-netcdf", []string{"io/netcdf/nclib"},
		"netCDF-C runs in the decoding program only"},
	{"github.com/NVIDIA/go-nvml", []string{"engine/backend/cuda"},
		"a call after a failed Init ends the process; one package knows that"},
	{"github.com/vbauerster/mpb/v8", []string{"internal/progress"},
		"bars never reach a log"},
	{"golang.org/x/time", []string{"ensemble/serve"},
		"only what answers requests has a rate to hold"},
	{"encoding/gob", []string{"ensemble/team", "internal/gonb"},
		"it writes names of Go's types, which change; ranks of one program may talk so, and the kernel's protocol is gob, but no file is (internal/columnfile)"},
	{"mvdan.cc/sh/v3", []string{"internal/setuptest"},
		"only the test of what a fresh machine needs reads shell scripts"},
	{"gonum.org/v1/plot", []string{"postproc/report/..."},
		"pictures belong to the report"},
}

// cgo lists the packages that may say import "C".
var cgo = []home{
	{"C", []string{"internal/dl", "internal/fieldmath", "engine/backend/cpu/dnnl", "engine/backend/cpu/kern", "engine/backend/cuda/cudnn", "engine/backend/cuda/emulate", "engine/backend/cuda/gpu", "engine/backend/cuda/nvrtc", "spatial/comm/mpi", "spatial/comm/nccl", "io/grib/eccodes", "io/grib/simplepack", "io/grib/ccsds", "io/netcdf/nclib", "postproc/simd"},
		"everything else builds and is tested without a C compiler"},
}

// unsafePackages lists the packages that may import unsafe.
var unsafePackages = []home{
	{"unsafe", []string{"internal/dl", "engine/backend/cpu/dnnl", "engine/backend/cpu/kern", "engine/backend/cuda", "engine/backend/cuda/cudnn", "engine/backend/cuda/device", "engine/backend/cuda/devicetest", "engine/backend/cuda/emulate", "engine/backend/cuda/gpu", "engine/backend/cuda/libraries/librariestest", "engine/backend/cuda/nvrtc", "io/grib/eccodes", "io/grib/simplepack", "io/grib/ccsds", "io/netcdf/nclib", "io/decode/wire",
		"cmd/ensemble-decode", "engine", "internal/bigmem", "internal/fieldmath", "spatial/comm/emulated", "spatial/comm/mpi", "spatial/comm/nccl", "postproc/simd"},
		"pointer arithmetic stays at the border to C and in the memory planner (engine)"},
}

// forbiddenLinks lists what a package must not link, however indirectly.
var forbiddenLinks = []struct {
	from, to, why string
}{
	{"cmd/ensemble", Module + "/io/grib/eccodes", "ecCodes crashes on hostile files: it runs in the child, and the program starts without it"},
	{"cmd/ensemble", Module + "/io/netcdf/nclib", "HDF5 crashes on hostile files: it runs in the child, and the program starts without it"},
	{"cmd/ensemble", "github.com/fhs/go-netcdf", "it links netCDF-C"},
	{"cmd/ensemble-decode", "github.com/spf13/viper", "the child takes no configuration"},
	{"cmd/ensemble-decode", Module + "/engine", "the child stays small: it is started often"},
}

// vagueNames are names that say nothing about what a package is for.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib"}
