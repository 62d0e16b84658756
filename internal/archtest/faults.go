package archtest

// fault is a row of docs/faults.md: a fault of input, storage, processors, files of others or several programs at once, and what the
// program does then. Its tests are the functions TestFaultNN and TestFaultNNSomething of the module, where NN is its number.
type fault struct {
	what    string // the fault
	outcome string // what happens
	exit    string // exit codes (internal/exit)
}

// faultGroups are the sections of docs/faults.md, in the order of the numbers.
var faultGroups = []struct {
	name   string
	faults []fault
}{
	{"Input", []fault{
		{"GRIB cut inside a message", "The message, its byte, its declared and its present length are named. Nothing of the file is used, unless `bad_messages: skip`", "65; 0 (`degraded`) or 66 if skipped"},
		{"File cut exactly between messages, with its index", "The fields that are missing from other members and leads, or from `--expect`, are listed", "65, 66"},
		{"Flipped bits in headers or data", "No crash. Wrong headers are refused; wrong values are found by a checksum if there is one, else by the limits of the variable", "65"},
		{"Huge declared sizes", "Refused before memory is allocated", "65"},
		{"Offsets above 2 and 4 GiB", "Read as all others", "0"},
		{"Web page, compressed file, empty file, folder, pipe or device in place of data", "The error states what it is; nothing waits for a pipe", "65"},
		{"Index that is older than its file, or of another file", "A warning; the index is not used", "0"},
		{"The same field twice", "Equal values: one is kept, with a warning. Different values: refused, with both places", "0, 65"},
		{"Member missing at all leads", "The input policy decides: fewer members, or a refusal", "0 (`degraded`), 66"},
		{"Member missing at one lead", "As 9; the report has members by leads", "0 (`degraded`), 66"},
		{"Control member absent, or of an older cycle", "Named; a control member of another cycle is never used", "65, 66"},
		{"Members in another order, or numbers used twice", "Another order gives the same bytes; numbers used twice are refused", "0, 65"},
		{"Files of several cycles", "Refused, with a list of the cycles", "65"},
		{"Another grid, order of points, or a header that contradicts itself", "The same points in another order are sorted, and recorded; other grids and contradictions are refused", "0, 65"},
		{"Units that change within an archive", "Values outside the limits of the variable are refused, with the factor; a jump between members and leads is a warning", "0, 65"},
		{"NaN, infinite values, fields without values", "Refused; some missing points of a field are a warning, and counted", "0, 65"},
		{"Constant fields, zero bits for each value", "Read, with a warning; a standard deviation of zero is replaced by a floor", "0"},
		{"A real value that equals the code of missing values", "Kept", "0"},
		{"Leads in other units or as ranges", "Exact, or refused", "0, 65"},
		{"Chunk of Zarr absent, part of NetCDF never written", "Refused: an absent chunk is not a missing value, unless `allow_missing_chunks: true`", "0, 65"},
	}},
	{"Storage", []fault{
		{"Disk full at a write, sync or close", "The old output remains whole, or the new one is there; a run that a training replaces comes back unless the new one has a checkpoint. Temporary files are removed; a training keeps its last checkpoint", "74"},
		{"Quota or limit of file size", "As 21; the error names the quota or limit", "74"},
		{"Killed at any moment", "The next command continues without help; a product is the old one, the new one or absent", "137, then 0"},
		{"Loss of power: writes that were not synced are lost or reordered", "As 23", "0"},
		{"Output folder that cannot be written, or with files that cannot be opened", "The command ends before it opens any input, with the path", "73"},
		{"Part of a checkpoint missing, or of another step", "The whole checkpoint is rejected. The one before it is used, with a warning; without any the command refuses", "0, 65"},
		{"Checkpoint damaged", "The checksum names the tensor or file; otherwise as 26", "0, 65"},
		{"Checkpoint of other ranks, another version, other variables or another order", "Other ranks: the parts are read by all. Anything else is refused, with the differences", "0, 65"},
		{"Network storage that is slow, stale or fails", "A bounded number of retries with a new handle, then an error", "74"},
		{"File system without locks", "Reading and writing work; the lease file is in use", "0"},
		{"Clock that jumps, another time zone", "Intervals are those of the monotonic clock, and leases compare no clocks (48); the output has the same bytes. A service publishes and delivers nothing twice, and products dated in the future are not the newest; deadlines and ages of initialisations follow the clock", "0"},
	}},
	{"Computation", []fault{
		{"Loss or gradient that is not finite", "The update is not applied. All ranks stop at that step; the error names the samples and the first tensor with such a value. The last good checkpoint remains", "1; 65 if the input was bad"},
		{"More memory needed than there is", "`plan` warns; the command stops before the system ends it", "69"},
		{"GPU with too little memory", "If another process takes some between plan and allocation, the plan is made once more for what is free then, with a warning; not on ranks, as all would have to. Otherwise the error has the memory that the plan needs and that there is", "69"},
		{"Processor without AVX, AVX2 or AVX-512", "Kernels are selected at run time; generic ones give the same result within their tolerance", "0"},
		{"Library absent, too old or of another kind", "The error has the name, the version wanted and found, and the places searched; what does not need it works", "69"},
		{"Rank dies", "All ranks stop within a minute, and no process remains. Over TCP the others end by themselves, with the number of the rank; under MPI the launcher ends them, and names the rank and the signal. A rank of which a message or the greeting over TCP arrives damaged counts as dead", "71; under MPI that of the launcher, not 0"},
		{"Rank hangs", "All ranks stop after the time limit, with the stacks of the ranks that answer", "71"},
		{"Ranks with different configurations, programs or data", "Compared at the start; the difference is printed. Not 71: a retry finds the same difference", "64; 65 for other input files"},
		{"GPU lost or faulty in mid-run", "The run stops; nothing is saved from the state of that GPU", "69; 71 on ranks"},
	}},
	{"Security", []fault{
		{"Pickle, or any other model file with code", "Refused by its content, also within an archive", "65"},
		{"Paths that leave their folder, in configurations, manifests, indices and archives", "Refused before a file is opened", "65; 64 in a configuration"},
		{"Symbolic links in outputs, also exchanged while the command runs", "Not followed; temporary files have random names and are created exclusively", "65, 73"},
		{"Files that expand, nest or repeat without bound", "Limits of ratio, depth, count, memory and time", "64, 65"},
		{"Decoder that crashes, loops or needs too much memory", "The child ends, the program does not; the file is named", "65"},
		{"Use of the network, or of other programs", "None but what is configured; the child has no network, cannot write, and starts no program", "70"},
		{"Secrets in the environment, wide permissions, escape sequences in names", "Logs and records have listed variables only; the umask holds; names are quoted", "0"},
	}},
	{"Several programs at once", []fault{
		{"Two commands in one directory", "The second one is refused at once. The lease of a dead process is taken over if its heartbeat has stopped and its process is gone", "73"},
		{"Reader while a product is replaced", "Reads the old one or the new one, whole", "0"},
		{"Input replaced or growing while it is read", "What was read is discarded and read again once; if it changes again, the command stops", "66"},
	}},
}
