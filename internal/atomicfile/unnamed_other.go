//go:build !linux

package atomicfile

// unnamed is no flag, as other systems have no such files: CheckWritable reports nothing there.
const unnamed = 0
