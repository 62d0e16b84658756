package archtest

// Module is the path of this module.
const Module = "github.com/ensemble-weather/ensemble"

// layer is a package, or with /... a folder of packages, and the packages of this
// module that it may import. The longest pattern that matches a package is its
// layer. Packages of one folder pattern may import each other.
type layer struct {
	pattern string
	may     []string
	why     string
}

// layers lists the layers from low to high.
var layers = []layer{
	{"internal/...", nil,
		"shared by several layers and owned by none, so below all of them"},
	{"ensemble", []string{"internal/exit", "internal/fieldmath"},
		"the domain types must be readable without knowledge of files, networks or tensors"},
	{"postproc/dist", nil,
		"a formula is written once, where losses, scores and baselines can all import it"},
	{"engine/...", []string{"postproc/dist", "internal/..."},
		"the compiler depends on tensors, not on meteorology"},
	{"unet3d", []string{"engine/...", "internal/..."},
		"a network consists of ops; its data are tensors"},
	{"spatial/...", []string{"engine/...", "internal/..."},
		"sharding works on any graph, so it must not depend on networks"},
	{"io/...", []string{"ensemble", "internal/..."},
		"readers and writers convert between file formats and domain types; they do not compute"},
	{"postproc/...", []string{"ensemble", "postproc/dist", "internal/..."},
		"statistics work on fields of any origin"},
	{"ensemble/regrid", []string{"ensemble"},
		"interpolation belongs to the domain's grids: readers must not compute, and jobs and statistics both need it"},
	{"ensemble/config/schema", []string{"internal/..."},
		"YAML is read in the same way for every schema, so the reader must not depend on any"},
	{"ensemble/config", []string{"engine/pass", "engine/share", "ensemble", "ensemble/config/schema", "io/unit", "postproc/dist", "postproc/score", "unet3d", "internal/..."},
		"the schemas use domain types; the capabilities of networks and distributions and the names of compiler passes and of groupings come from their tables, units from the parser of units, and regions from that of scores"},
	{"ensemble/config/protocolfile", []string{"ensemble", "ensemble/config", "ensemble/config/schema", "internal/..."},
		"a protocol describes an archive and how to score forecasts of it, not how to compute them"},
	{"ensemble/config/experimentfile", []string{"ensemble", "ensemble/config", "ensemble/config/protocolfile", "ensemble/config/schema", "internal/..."},
		"an experiment is checked before any job runs; training configurations do not depend on it"},
	{"ensemble/record", []string{"ensemble/config/experimentfile", "postproc/score", "internal/..."},
		"records of experiments must be readable and comparable without the jobs that wrote them"},
	{"ensemble/demo", []string{"ensemble", "io/...", "internal/..."},
		"the demo writes files like any other data source; it must not depend on networks"},
	{"ensemble/demo/demotest", []string{"ensemble/demo", "ensemble/config", "io/decode", "internal/..."},
		"tests of several packages share this data set"},
	{"ensemble/team", []string{"ensemble", "spatial/...", "engine/graph", "internal/..."},
		"ranks shard the fields of any network, so the package must not depend on networks"},
	{"ensemble/model", []string{"ensemble", "ensemble/config", "ensemble/model/task", "ensemble/model/network", "ensemble/team", "ensemble/regrid", "engine/...", "unet3d", "spatial/...", "io/unit", "postproc/...", "internal/..."},
		"models must be readable without the jobs that train and use them"},
	{"ensemble/model/network", []string{"ensemble", "ensemble/config", "ensemble/model/task", "ensemble/team", "engine/...", "unet3d", "spatial/...", "postproc/...", "internal/..."},
		"a network is built from a task; it must not depend on files or on the model that contains it"},
	{"ensemble/model/task", []string{"ensemble", "ensemble/config", "ensemble/team", "ensemble/regrid", "engine/graph", "engine/ckpt", "spatial/...", "io/unit", "postproc/...", "internal/..."},
		"inputs and targets do not depend on the network"},
	{"ensemble/doctor", []string{"engine/...", "spatial/...", "io/decode", "internal/..."},
		"the report on a machine must not depend on jobs"},
	{"ensemble/selftest", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/doctor", "ensemble/run/...", "engine", "engine/...", "io", "io/...", "internal/..."},
		"the self-test uses what users call: the jobs, and everything below them"},
	{"ensemble/exchange", []string{"ensemble", "ensemble/config", "ensemble/model/...", "engine", "engine/...", "unet3d", "io/product", "internal/..."},
		"weights of other programs are read and written without jobs"},
	{"ensemble/run/...", []string{"ensemble", "ensemble/config", "ensemble/config/experimentfile", "ensemble/config/protocolfile", "ensemble/demo", "ensemble/doctor", "ensemble/exchange", "ensemble/model/...", "ensemble/regrid", "ensemble/team", "engine/...", "unet3d", "spatial/...", "io/...", "postproc/...", "internal/..."},
		"only jobs combine the layers"},
	{"ensemble/run/runtest", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/demo/demotest", "ensemble/exchange", "ensemble/model/...", "ensemble/regrid", "engine/...", "io/...", "postproc/...", "internal/..."},
		"tests of all jobs use it, so it must not depend on any job"},
	{"ensemble/run/train/traintest", []string{"ensemble", "ensemble/config", "ensemble/demo", "ensemble/demo/demotest", "ensemble/run/...", "ensemble/team", "spatial/...", "internal/..."},
		"tests of several jobs share this training"},
	{"ensemble/experiment", []string{"ensemble/...", "ensemble", "engine/...", "unet3d", "io/...", "postproc/...", "internal/..."},
		"an experiment calls jobs through their public functions; jobs must not depend on it"},
	{"ensemble/published", []string{"ensemble", "io", "io/decode", "io/product", "internal/..."},
		"published files are read as any other program would, without jobs"},
	{"ensemble/desk", []string{"ensemble", "ensemble/published", "ensemble/regrid", "ensemble/run/scoring", "postproc/report", "internal/..."},
		"the page is drawn from product files, whatever issued them"},
	{"ensemble/edr", []string{"ensemble", "ensemble/published", "io/product", "internal/..."},
		"queries are answered from published files, without jobs"},
	{"ensemble/stac", []string{"ensemble", "ensemble/edr", "ensemble/published", "io/product", "internal/..."},
		"the catalogue describes published files, without jobs"},
	{"ensemble/hook", []string{"ensemble", "ensemble/config", "io/product", "internal/..."},
		"what is called with finished products must not depend on how they are made"},
	{"ensemble/retention", []string{"ensemble", "io/product", "internal/..."},
		"products are removed without knowledge of how they are made or served"},
	{"ensemble/serve", []string{"ensemble", "ensemble/config", "ensemble/desk", "ensemble/edr", "ensemble/hook", "ensemble/published", "ensemble/retention", "ensemble/run/...", "ensemble/stac", "io/decode", "io/product", "postproc/report", "internal/..."},
		"the service runs jobs and shows their products; jobs must not depend on it"},
	{"cmd/ensemble", []string{"ensemble/run/...", "ensemble/demo", "ensemble/doctor", "ensemble/exchange", "ensemble/model/...", "ensemble/experiment", "ensemble/retention", "ensemble/selftest", "ensemble/serve", "ensemble/team", "ensemble/config", "ensemble/config/experimentfile", "ensemble/config/protocolfile", "io/product", "postproc/score", "internal/..."},
		"a subcommand parses flags, makes one call and returns an exit code"},
	{"cmd/ensemble-decode", []string{"io/...", "ensemble", "internal/..."},
		"the child process decodes and encodes; it must not depend on jobs"},
	{"notebooks", []string{"ensemble", "ensemble/run/...", "ensemble/config", "engine", "engine/graph", "spatial", "spatial/comm", "io", "io/product", "postproc/report", "postproc/score", "unet3d", "internal/..."},
		"notebook cells import only this package, so it exposes the jobs and views of the engine and of ranks"},
	{"experiments/...", []string{"ensemble/run/...", "ensemble/experiment", "ensemble/config", "ensemble/config/experimentfile", "ensemble/config/protocolfile", "internal/..."},
		"an experiment uses the public API, as any other program would"},
	{"benchmarks/...", []string{"ensemble/run/...", "ensemble/model/...", "ensemble", "engine/...", "io/...", "internal/..."},
		"benchmarks measure networks through the public API, single operations through the engine, and readers as jobs use them"},
	{"clients/...", []string{"internal/..."},
		"clients use files and command lines of the program, as others would"},
	{"scripts/...", nil,
		"build tools must work before the program can be built"},
}

// home lists the only packages that may import an outside module.
type home struct {
	module string // import path prefix
	homes  []string
	why    string
}

// homes lists outside modules with the packages that may import them.
var homes = []home{
	{"github.com/spf13/viper", []string{"ensemble/config"},
		"viper lower-cases and merges keys; only the schema handles that"},
	{"go.yaml.in/yaml/v3", []string{"ensemble/config", "ensemble/config/schema"},
		"all YAML is read strictly, by one package; the other has the syntax of its values"},
	{"github.com/spf13/cobra", []string{"cmd/ensemble"},
		"libraries have no command line"},
	{"github.com/apache/arrow/go/v15", []string{"io/table"},
		"Arrow is large and its API changes between versions; only one package is affected"},
	{"github.com/klauspost/compress", []string{"io/zarr"},
		"untrusted compressed data are decoded under limits, in one package"},
	{"github.com/klauspost/cpuid/v2", []string{"internal/cpuinfo"},
		"one package defines the names of CPU features"},
	{"github.com/pierrec/lz4/v4", []string{"io/zarr"},
		"untrusted compressed data are decoded under limits, in one package"},
	{"github.com/fhs/go-netcdf", []string{"io/netcdf/nclib"},
		"netCDF-C runs in the decoding program only"},
	{"github.com/NVIDIA/go-nvml", []string{"engine/backend/cuda"},
		"a call after a failed Init ends the process; one package handles that"},
	{"github.com/elastic/go-seccomp-bpf", []string{"internal/sandbox"},
		"one package takes rights from a process"},
	{"github.com/landlock-lsm/go-landlock", []string{"internal/sandbox"},
		"one package takes rights from a process; it wraps pthread_create, so only the decoding program links it"},
	{"golang.org/x/term", []string{"internal/terminal", "internal/interrupt"},
		"one package decides what is a terminal, and how wide; escape sequences must not reach logs"},
	{"golang.org/x/time", []string{"ensemble/serve"},
		"only the HTTP service limits rates"},
	{"encoding/gob", []string{"ensemble/team", "internal/gonb"},
		"gob writes names of Go types, which change: it is allowed between ranks of one program and in the notebook kernel's protocol, not in files (use internal/columnfile)"},
	{"mvdan.cc/sh/v3", []string{"internal/setuptest"},
		"only the test of prerequisites parses shell scripts"},
	{"gonum.org/v1/plot", []string{"postproc/report/..."},
		"figures belong to the report"},
}

// cgo lists the packages that may import "C".
var cgo = []home{
	{"C", []string{"internal/dl", "internal/fieldmath", "engine/backend/cpu/dnnl", "engine/backend/cpu/kern", "engine/backend/cuda/cudnn", "engine/backend/cuda/emulate", "engine/backend/cuda/gpu", "engine/backend/cuda/nvrtc", "spatial/comm/mpi", "spatial/comm/nccl", "io/grib/eccodes", "io/grib/simplepack", "io/grib/ccsds", "io/netcdf/nclib", "postproc/simd"},
		"everything else must build and be tested without a C compiler"},
}

// unsafePackages lists the packages that may import unsafe.
var unsafePackages = []home{
	{"unsafe", []string{"internal/dl", "engine/backend/cpu/dnnl", "engine/backend/cpu/kern", "engine/backend/cuda", "engine/backend/cuda/cudnn", "engine/backend/cuda/device", "engine/backend/cuda/devicetest", "engine/backend/cuda/emulate", "engine/backend/cuda/gpu", "engine/backend/cuda/libraries/librariestest", "engine/backend/cuda/nvrtc", "io/grib/eccodes", "io/grib/simplepack", "io/grib/ccsds", "io/netcdf/nclib", "io/decode/wire",
		"cmd/ensemble-decode", "engine", "internal/bigmem", "internal/fieldmath", "spatial/comm/emulated", "spatial/comm/mpi", "spatial/comm/nccl", "spatial/comm/tcp", "postproc/simd"},
		"pointer arithmetic is limited to calls of C and to the memory planner (engine)"},
}

// forbiddenLinks lists packages that a program must not link, directly or
// indirectly.
var forbiddenLinks = []struct {
	from, to, why string
}{
	{"cmd/ensemble", Module + "/io/grib/eccodes", "ecCodes may crash on malformed files: it runs in the child process, and the program starts without it"},
	{"cmd/ensemble", Module + "/io/netcdf/nclib", "HDF5 may crash on malformed files: it runs in the child process, and the program starts without it"},
	{"cmd/ensemble", "github.com/fhs/go-netcdf", "it links netCDF-C"},
	{"cmd/ensemble", Module + "/engine/cost/graphnet", "steps of networks that it did not see it predicts no better than engine/cost (decision 0040): it is a comparison"},
	{"cmd/ensemble", "google.golang.org/grpc", "the program speaks no gRPC: Arrow's tables link a server of it, Parquet's columns do not"},
	{"cmd/ensemble", "golang.org/x/net", "HTTP is that of the standard library"},
	{"cmd/ensemble-decode", "net/http", "the child process has no network"},
	{"cmd/ensemble-decode", "github.com/spf13/viper", "the child process has no configuration"},
	{"cmd/ensemble-decode", Module + "/engine", "the child process must stay small: it is started often"},
}

// vagueNames lists package names that do not describe a purpose.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib"}
