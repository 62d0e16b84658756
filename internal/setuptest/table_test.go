package setuptest

// program is a looked-up program and its origin: a package that scripts/setup.sh
// installs, a folder that it creates, or one of those below.
type program struct {
	name, from string
	why        string // of a program that may be missing: what happens then
}

const (
	debian  = "Debian"  // every Debian has it
	ours    = "ours"    // we build it
	missing = "missing" // it may be missing
)

var programs = []program{
	{"apt-get", debian, ""}, {"awk", debian, ""}, {"bash", debian, ""}, {"cat", debian, ""}, {"chmod", debian, ""}, {"cp", debian, ""},
	{"date", debian, ""}, {"dirname", debian, ""}, {"dpkg", debian, ""}, {"dpkg-deb", debian, ""}, {"dpkg-query", debian, ""}, {"cmp", debian, ""}, {"diff", debian, ""}, {"readlink", debian, ""}, {"realpath", debian, ""},
	{"find", debian, ""}, {"grep", debian, ""}, {"gunzip", debian, ""}, {"gzip", debian, ""}, {"head", debian, ""}, {"id", debian, ""}, {"install", debian, ""}, {"ln", debian, ""},
	{"logger", debian, ""}, {"ls", debian, ""}, {"md5sum", debian, ""}, {"mkdir", debian, ""}, {"mktemp", debian, ""}, {"mount", debian, ""}, {"nsenter", debian, ""}, {"nproc", debian, ""},
	{"rm", debian, ""}, {"script", debian, ""}, {"sed", debian, ""}, {"sh", debian, ""}, {"sha256sum", debian, ""}, {"sleep", debian, ""}, {"sort", debian, ""}, {"tail", debian, ""},
	{"setpriv", debian, ""}, {"tar", debian, ""}, {"tee", debian, ""}, {"timeout", debian, ""}, {"touch", debian, ""}, {"tr", debian, ""}, {"tput", debian, ""}, {"true", debian, ""}, {"uname", debian, ""}, {"unshare", debian, ""}, {"wc", debian, ""},
	{"xargs", debian, ""}, {"mv", debian, ""}, {"yes", debian, ""},

	{"git", "git", ""}, {"make", "make", ""}, {"gcc", "gcc", ""}, {"cc", "gcc", ""}, {"pkg-config", "pkg-config", ""},
	{"dpkg-shlibdeps", "dpkg-dev", ""},

	{"g++", "g++", ""},
	{"python3", "python3", ""},
	{"mpirun.openmpi", "openmpi-bin", ""}, {"mpirun.mpich", "mpich", ""},
	{"cdo", "cdo", ""}, {"ncks", "nco", ""}, {"ncap2", "nco", ""}, {"ncatted", "nco", ""},
	{"gdalinfo", "gdal-bin", ""}, {"gdallocationinfo", "gdal-bin", ""}, {"gdalmdiminfo", "gdal-bin", ""}, {"gdalmdimtranslate", "gdal-bin", ""},
	{"Rscript", "r-base-core", ""},
	{"grib_copy", "libeccodes-tools", ""}, {"grib_get", "libeccodes-tools", ""}, {"grib_get_data", "libeccodes-tools", ""}, {"grib_ls", "libeccodes-tools", ""},
	{"grib_set", "libeccodes-tools", ""},
	{"chromium", "chromium", ""}, {"dot", "graphviz", ""},
	{"mandoc", "mandoc", ""}, {"groff", "groff-base", ""}, {"hunspell", "hunspell", ""},
	{"zsh", "zsh", ""}, {"fish", "fish", ""},
	{"ecflow_server", "ecflow-server", ""}, {"ecflow_client", "ecflow-client", ""},
	{"sbatch", "slurm-wlm", ""}, {"scancel", "slurm-wlm", ""}, {"scontrol", "slurm-wlm", ""}, {"sinfo", "slurm-wlm", ""}, {"slurmctld", "slurm-wlm", ""},
	{"slurmd", "slurm-wlm", ""}, {"squeue", "slurm-wlm", ""}, {"srun", "slurm-wlm", ""},
	{"munged", "munge", ""},
	{"curl", "curl", ""}, {"prometheus", "prometheus", ""},
	{"promtool", "prometheus", ""},
	{"systemctl", "systemd", ""}, {"systemd-analyze", "systemd", ""},

	{"go", "build/go", ""}, {"build/go/bin/go", "build/go", ""}, {"gofmt", "build/go", ""},
	{"build/venv/bin/python", "build/venv", ""}, {"build/venv/bin/pip", "build/venv", ""},
	{"cylc", "build/cylc", ""}, {"build/cylc/bin/cylc", "build/cylc", ""},
	{"build/kernel/gonb", "build/kernel", ""},
	{"ensemble", ours, ""}, {"ensemble-decode", ours, ""}, {"tcprun", ours, ""},

	{"podman", missing, "make image takes one of the three"}, {"buildah", missing, "see podman"}, {"docker", missing, "see podman"},
	{"chromium-browser", missing, "scripts/setup.sh installs chromium"}, {"google-chrome", missing, "see chromium-browser"},
	{"sudo", missing, "scripts/setup.sh lists what root has to install"},
	{"unzip", missing, "the command of a refused zip archive is not typed"}, {"wgrib2", missing, "no package has it: products are opened by ecCodes, CDO and GDAL only"},
	{"nginx", missing, "readers of the service are not compared with those of nginx"},
	{"nvidia-smi", missing, "the report of gpu.sh lacks a line"}, {"compute-sanitizer", missing, "the report of gpu.sh says that it is not there"},
}

// others lists packages without looked-up programs.
var others = map[string]string{
	"ca-certificates":  "modules and Python packages are fetched",
	"libc6-dev":        "cgo",
	"hunspell-en-gb":   "the dictionary of hunspell",
	"libnetcdf-dev":    "io/netcdf/nclib",
	"libhdf5-dev":      "io/netcdf/nclib",
	"libeccodes-dev":   "io/grib/eccodes",
	"libaec-dev":       "io/grib/ccsds",
	"libdeflate-dev":   "io/grib/ccsds",
	"libdnnl-dev":      "engine/backend/cpu/dnnl",
	"python3-venv":     "build/venv and build/cylc",
	"fonts-liberation": "pages that Chromium draws",
	"bash-completion":  "completions in bash stand on it",
	"r-cran-ncdf4":     "recipes of docs/netcdf.md for R",
	"rsync":            "Cylc installs files with it",
	"xz-utils":         "dpkg-deb compresses with it",
}

// indirect lists expressions that cannot be followed, by file, with the programs
// that they may name.
var indirect = map[string][]string{
	"build.go: o.python":      {"build/venv/bin/python"},
	"bench.go: b.Program[0]":  nil, // ensemble, or the shell of a test
	"bench_test.go: c.script": nil, // the shell's own words
	"child.go: o.Program":     {"ensemble-decode"},
	`cells_test.go: strings.ReplaceAll(strings.TrimPrefix(command, "!*"), "\\\n", " ")`: {"go", "cp", "grep", "realpath"}, // the first cell of notebooks
	"command.go: c.words[0]":      nil, // of serve.on_issue
	"command.go: call.Command[0]": nil, // of serve.on_issue
	"kubernetes_test.go: line[0]": {"bash"},
	"servehook_test.go: b.text":   nil, // of the page, by bash
	`servehook_test.go: strings.ReplaceAll(line, "/etc/ensemble", f.dir)`: nil, // of the page, by bash
	"conformance.go: c.Program":                                           nil, // a flag
	"emos_test.go: q.probe[0]":                                            {"build/venv/bin/python", "Rscript"},
	"emos_test.go: q.command[0]":                                          {"build/venv/bin/python", "Rscript"},
	"mistakes_test.go: strings.Cut(line, \" > \")":                        {"sed"}, // that a fix prints
	"parts_test.go: launcher":                                             nil,     // of mpitest.Launchers
	"baselines_test.go: launcher":                                         nil,     // of mpitest.Launchers
	"mpi_test.go: mpitest.Launchers[0]":                                   nil,
	"measure_long_test.go: mpitest.Launchers[0]":                          nil,
	"exchange_long_test.go: mpitest.Launchers[0]":                         nil,
	"exchange_test.go: mpitest.Launchers[0]":                              nil,
	"peers_long_test.go: launcher":                                        nil, // of mpitest.Launchers
	"peers_test.go: launcher":                                             nil, // of mpitest.Launchers
	"predict.go: o.Program[0]":                                            nil, // ensemble
	"programs_test.go: p.name":                                            nil, // of the table
	"pagerun_test.go: script.String()":                                    nil, // of the pages, which are looked at
	"processcounts_test.go: launcher":                                     nil, // of mpitest.Launchers
	"processcounts_test.go: mpitest.Launchers[c.launcher]":                nil, // of mpitest.Launchers
	"rankfailure_test.go: launcher":                                       nil, // of mpitest.Launchers
	"rankfailure_test.go: some[:1]":                                       nil, // of mpitest.Launchers
	`refusals_test.go: strings.Cut(command, " ")`:                         {"ncatted", "gunzip", "unzip"},
	`refusals_test.go: strings.ReplaceAll(command, "FILE", "'"+path+"'")`: {"ncatted", "gunzip", "unzip"},
	"rolling_test.go: program[0]":                                         {"ncap2", "cdo"},
	"serve_test.go: line[0]":                                              {"unshare"}, // or ensemble
	"servelocal_test.go: line[0]":                                         {"unshare"},
	"servefaults_test.go: words[0]":                                       {"unshare"},
	"opsdisk_test.go: line[0]":                                            {"unshare"},
	"prometheushour_long_test.go: line[0]":                                {"nsenter"},
	"prometheushour_long_test.go: mount[0]":                               {"unshare"},
	`world_test.go: map[string]string{"Open MPI": mpitest.Launchers[0], "MPICH": mpitest.Launchers[1]}[i.Name]`: nil,
}
