package team

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/ensemble-weather/ensemble/internal/balance"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/spatial/comm"
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

// hashSample writes samples of a file to h, all of a short file. Of
// a folder it writes the list of files, the checksums that it lists in SHA256SUMS, as sample stores do, and samples of some
// files. It finds files that differ between nodes without a complete pass on each rank.
func hashSample(h io.Writer, path string, parts []manifest.InputFile) error {
	for _, p := range parts {
		fmt.Fprintln(h, p.Path, p.Size())
		if p.Path != manifest.SumsName {
			continue
		}
		sums, err := manifest.SumFile(filepath.Join(path, p.Path))
		if err != nil {
			return err
		}
		fmt.Fprintln(h, sums.SHA256)
	}
	for i := range min(sampleCount, len(parts)) {
		if err := hashFileSample(h, filepath.Join(path, parts[i*len(parts)/min(sampleCount, len(parts))].Path)); err != nil {
			return err
		}
	}
	return nil
}

// identity describes regular files by names, sizes, times of modification and inode numbers. Files of one file
// system have the same on all nodes.
func identity(parts []manifest.InputFile) string {
	var text strings.Builder
	for _, p := range parts {
		inode := uint64(0)
		if st, ok := p.Sys().(*syscall.Stat_t); ok {
			inode = st.Ino
		}
		fmt.Fprintln(&text, p.Path, p.Size(), p.ModTime().UnixNano(), inode)
	}
	return text.String()
}

// hashFileSample writes the samples of one file.
//
// Cost: sampleCount reads of sampleBytes. Samples of a short file overlap, which does no
// harm.
func hashFileSample(h io.Writer, path string) error {
	f, err := filesystem.Open(path)
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

// isSame reports on all ranks whether a checksum is the same on all.
func (t *Team) isSame(sum []byte) (bool, error) {
	all, err := comm.AllGather(t.Comm, []int64{int64(binary.LittleEndian.Uint64(sum))})
	for _, s := range all {
		if s != all[0] {
			return false, err
		}
	}
	return true, err
}

// ChecksumFiles returns the checksums of input files. All ranks compare the files before (sameFiles); each file,
// also of a folder, is read completely by one rank. Files are distributed by their bytes, the largest first to the rank
// with the fewest bytes.
//
// The result has the order of files on all ranks.
//
// Errors: those of manifest.Sum; exit 65 if ranks see different files.
func (t *Team) ChecksumFiles(ctx context.Context, files []string) ([]manifest.File, error) {
	task := progress.Start(ctx, "checksums of files", 0)
	defer task.Done()
	if t == nil {
		return manifest.Sum(files...)
	}
	parts, err := t.sameFiles(files)
	if err != nil {
		return nil, err
	}
	owned := ownFiles(parts, t.Size())
	var own []string
	for _, f := range owned[t.Comm.Rank()] {
		own = append(own, filepath.Join(files[f.input], f.Path))
	}
	sums, err := manifest.Sum(own...)
	all, err := AllGatherOutcomes(t, Outcome[[]manifest.File]{Result: sums}, err)
	if err != nil {
		return nil, err
	}
	of := make([][]manifest.File, len(files))
	for i := range parts {
		of[i] = make([]manifest.File, len(parts[i]))
	}
	for rank, o := range all {
		for k, f := range owned[rank] {
			of[f.input][f.part] = o.Result[k]
		}
	}
	out := make([]manifest.File, len(files))
	for i, f := range files {
		out[i] = manifest.JoinFiles(f, parts[i], of[i])
	}
	return out, nil
}

// ownedFile is one file of the inputs.
type ownedFile struct {
	manifest.InputFile
	input, part int
}

// ownFiles distributes the files of all inputs over ranks by their bytes.
func ownFiles(parts [][]manifest.InputFile, ranks int) [][]ownedFile {
	var all []ownedFile
	var costs []int64
	for i := range parts {
		for k, p := range parts[i] {
			all, costs = append(all, ownedFile{p, i, k}), append(costs, p.Size())
		}
	}
	owned := make([][]ownedFile, ranks)
	for i, rank := range balance.Assign(costs, ranks) {
		owned[rank] = append(owned[rank], all[i])
	}
	return owned
}

// sameFiles lists the regular files of each input and compares them on all ranks. Files of one file system are not read; of
// others sizes and samples of their content are compared.
//
// Errors: exit 65 if ranks see different files.
func (t *Team) sameFiles(files []string) ([][]manifest.InputFile, error) {
	parts := make([][]manifest.InputFile, len(files))
	listed := sha256.New()
	var err error
	for i, f := range files {
		if parts[i], err = manifest.ListFiles(f); err != nil {
			err = exit.ReadError(f, err)
			break
		}
		fmt.Fprintln(listed, f, identity(parts[i]))
	}
	if err := t.AgreeOnError(err); err != nil {
		return nil, err
	}
	shared, err := t.isSame(listed.Sum(nil))
	if shared || err != nil {
		return parts, err
	}
	var lines []string
	for i, f := range files {
		seen := sha256.New()
		if err = hashSample(seen, f, parts[i]); err != nil {
			err = exit.ReadError(f, err)
			break
		}
		size := int64(0)
		for _, p := range parts[i] {
			size += p.Size()
		}
		lines = append(lines, fmt.Sprintf("%s: %d bytes, samples %x", f, size, seen.Sum(nil)[:8]))
	}
	if err := t.AgreeOnError(err); err != nil {
		return nil, err
	}
	text := strings.Join(lines, "\n")
	return parts, t.CheckSame(Fact{Name: "the input files", Value: fmt.Sprintf("%x", sha256.Sum256([]byte(text))), Detail: text, Code: exit.BadData, Why: together, Fix: "give all nodes the same files"})
}
