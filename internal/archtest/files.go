package archtest

// fileCalls lists the calls with which files are created, written, renamed or removed, by package. A file that is open for
// writing comes from one of them, so its Write, Sync and Truncate pass through internal/filesystem too. filepath.Abs is
// among them as its answer for ".." is not the kernel's in a folder that was reached by a link.
var fileCalls = map[string][]string{
	"os": {"Chmod", "Chown", "Chtimes", "CopyFS", "Create", "CreateTemp", "Link", "Mkdir", "MkdirAll", "MkdirTemp", "OpenFile", "Remove",
		"RemoveAll", "Rename", "Symlink", "Truncate", "WriteFile"},
	"path/filepath": {"Abs"},
	"golang.org/x/sys/unix": {"Creat", "Fallocate", "Fdatasync", "Flock", "Fsync", "Ftruncate", "Link", "Linkat", "Mkdir", "Mkdirat", "Open", "Openat",
		"Openat2", "Pwrite", "Rename", "Renameat", "Renameat2", "Rmdir", "Symlink", "Symlinkat", "Truncate", "Unlink", "Unlinkat", "Write"},
}

// fileHomes lists the packages, without their tests, that may make these calls. All others use internal/filesystem, so that
// a test can make each of their operations fail.
var fileHomes = []home{
	{"os", []string{"internal/filesystem"},
		"the layer itself"},
	{"os", []string{"engine/backend/cuda/emulate", "engine/backend/cuda/libraries/librariestest", "ensemble/demo/demotest", "ensemble/run/runtest",
		"ensemble/run/train/traintest", "internal/mpitest", "internal/mutation", "internal/powerfail", "internal/testdecoder", "internal/testnetcdf", "io/product/producttest"},
		"only tests use them; what they write are test data"},
	{"os", []string{"internal/gonb", "notebooks", "scripts/site"},
		"tools of developers, not part of the program"},
	{"os", []string{"engine/backend/cuda/nvrtc"},
		"sets the time of a file of the cache of kernels, whose failure is ignored"},
}

// testOnly lists packages that only tests may import, and that may replace the System of internal/filesystem.
var testOnly = []string{"internal/faultfs", "internal/powerfail"}
