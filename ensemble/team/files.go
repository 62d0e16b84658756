package team

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// programChecksum returns the checksum of this program; it is computed once per
// process.
var programChecksum = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	files, err := manifest.Sum(path)
	if err != nil {
		return "", err
	}
	return files[0].SHA256, nil
})

// Ranks compare that many samples of a file, evenly spaced from its start to its
// end, of sampleBytes each.
const (
	sampleCount = 16
	sampleBytes = 4 << 10
)

// hashSample writes samples of a file to h, all of a short file, and returns its size. Of
// a folder it writes the list of files and samples of some of them. It finds files that
// differ between nodes without a complete pass on each rank.
func hashSample(h io.Writer, path string) (size int64, err error) {
	parts, err := manifest.ListFiles(path)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		size += p.Size()
		fmt.Fprintln(h, p.Path, p.Size())
	}
	for i := range min(sampleCount, len(parts)) {
		if err := hashFileSample(h, filepath.Join(path, parts[i*len(parts)/min(sampleCount, len(parts))].Path)); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// hashFileSample writes the samples of one file.
//
// Cost: sampleCount reads of sampleBytes. Samples of a short file overlap, which does no
// harm.
func hashFileSample(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for i := range int64(sampleCount) {
		at := max(0, st.Size()-sampleBytes) * i / (sampleCount - 1)
		if _, err := io.Copy(h, io.NewSectionReader(f, at, sampleBytes)); err != nil {
			return err
		}
	}
	return nil
}

// ChecksumFiles returns the checksums of input files. The files are distributed
// over the ranks; all ranks compare their sizes and samples of their content.
//
// File i is read completely by rank i mod ranks. The result has the order of files on all
// ranks.
//
// Errors: those of manifest.Sum; exit 71 if ranks see different files.
func (t *Team) ChecksumFiles(ctx context.Context, files []string) ([]manifest.File, error) {
	task := progress.Start(ctx, "checksums of files", 0)
	defer task.Done()
	w := Teams{All: t}
	sizes := make([]int64, len(files))
	seen := sha256.New()
	var err error
	for i, f := range files {
		if sizes[i], err = hashSample(seen, f); err != nil {
			err = exit.ReadError(f, err)
			break
		}
	}
	if err := t.AgreeOnError(err); err != nil {
		return nil, err
	}
	if err := t.CheckSame("the input files", fmt.Sprintf("%v %v %x", files, sizes, seen.Sum(nil))); err != nil {
		return nil, err
	}
	own, err := manifest.Sum(Assigned(w, files)...)
	if t == nil {
		return own, err
	}
	all, err := AllGatherOutcomes(t, Outcome[[]manifest.File]{Result: own}, err)
	if err != nil {
		return nil, err
	}
	out := make([]manifest.File, len(files))
	for i := range files {
		out[i] = all[i%len(all)].Result[i/len(all)]
	}
	return out, nil
}
