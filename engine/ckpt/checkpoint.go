package ckpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// format is the version of index.json.
const format = 1

// Meta is what a checkpoint says beside its tensors.
type Meta struct {
	Step       uint64 `json:"step"`  // optimiser steps done
	Epoch      int    `json:"epoch"` // epochs begun
	Version    string `json:"version"`
	ConfigHash string `json:"config_sha256"`
	// State is whatever else the training loop needs to go on as if it had never
	// stopped: seeds and counters, place in the data order, best score, patience.
	State json.RawMessage `json:"state,omitempty"`
	// Plan is the compiled plan with every kernel chosen by timing; resume runs it
	// as it is.
	Plan json.RawMessage `json:"plan,omitempty"`
}

// Checkpoint is a whole checkpoint, verified.
type Checkpoint struct {
	Meta
	Dir     string
	Tensors []Tensor
}

// index is index.json.
type index struct {
	Format int `json:"format"`
	Meta
	Parts []part `json:"parts"`
}

// part is one file of a checkpoint: what one rank holds.
type part struct {
	manifest.File
	Tensors []tensorChecksum `json:"tensors"`
}

// tensorChecksum lets a damaged file be blamed on a tensor.
type tensorChecksum struct {
	Name   string `json:"name"`
	DType  DType  `json:"dtype"`
	Shape  []int  `json:"shape"`
	CRC32C uint32 `json:"crc32c"`
}

// Name is the folder of the checkpoint of a step.
func Name(step uint64) string { return fmt.Sprintf("step-%09d", step) }

var dirPattern = regexp.MustCompile(`^step-[0-9]{9,20}$`)

const (
	indexFile  = "index.json"
	latestFile = "LATEST"
	bestFile   = "BEST"
)

// Save writes the checkpoint of m.Step under root, which is made if needed, reads it
// back, and only then gives it its name and points LATEST at it. A checkpoint of
// the same step is replaced. The caller must be the only writer under root.
//
// Errors: 73, 74; what was there before is untouched.
func Save(root string, m Meta, tensors []Tensor) (dir string, err error) {
	dir = filepath.Join(root, Name(m.Step))
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", exit.CreateError(root, err)
	}
	if err := checkSpace(root, tensors); err != nil {
		return "", err
	}
	tmp, err := atomicfile.TempDir(root, "."+Name(m.Step)+".partial-")
	if err != nil {
		return "", exit.CreateError(dir, err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp) // the first error counts
		}
	}()
	name := "rank-0000.st"
	sums, err := writeFile(filepath.Join(tmp, name), tensors, nil)
	if err != nil {
		return "", err
	}
	file, err := manifest.SumFile(filepath.Join(tmp, name))
	if err != nil {
		return "", exit.CreateError(dir, err)
	}
	file.Path = name
	text, err := json.MarshalIndent(index{format, m, []part{{file, sums}}}, "", " ")
	if err != nil {
		return "", err
	}
	if err := atomicfile.WriteFile(filepath.Join(tmp, indexFile), append(text, '\n')); err != nil {
		return "", exit.CreateError(dir, err)
	}
	if err := verify(tmp); err != nil {
		return "", &exit.Error{Code: exit.IO, What: "the checkpoint reads back differently from what was written", At: dir, Why: err.Error(),
			Fix: "check the disk; rerun the same command", Err: err}
	}
	if err := removeAtomically(dir); err != nil {
		return "", exit.CreateError(dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", exit.CreateError(dir, err)
	}
	if err := atomicfile.WriteFile(filepath.Join(root, latestFile), []byte(Name(m.Step)+"\n")); err != nil {
		return "", exit.CreateError(filepath.Join(root, latestFile), err)
	}
	return dir, nil
}

// checkSpace compares what the tensors need with what the file system has left.
func checkSpace(root string, tensors []Tensor) error {
	need := int64(1 << 20)
	for _, t := range tensors {
		d, err := t.dtype()
		if err != nil {
			return err
		}
		n, err := countElements(t.Shape)
		if err != nil {
			return err
		}
		need += n * d.size()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return nil // writing will tell
	}
	if have := int64(st.Bavail) * st.Bsize; have < need {
		return &exit.Error{Code: exit.IO, What: "no space left for a checkpoint", At: root,
			Why: fmt.Sprintf("it needs %d MiB, %d MiB are free", need>>20, have>>20),
			Fix: "free some space; rerun the same command"}
	}
	return nil
}

// removeAtomically makes a checkpoint vanish at once, by renaming, and then removes it.
func removeAtomically(dir string) error {
	trash, err := os.MkdirTemp(filepath.Dir(dir), ".trash-")
	if err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(trash, "x")); err != nil && !errors.Is(err, os.ErrNotExist) {
		os.Remove(trash)
		return err
	}
	return os.RemoveAll(trash)
}

// readIndex reads index.json and refuses names that lead out of the folder.
func readIndex(dir string) (index, error) {
	var x index
	path := filepath.Join(dir, indexFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return x, exit.ReadError(path, err)
	}
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the index of the checkpoint is damaged", At: path, Why: why, Fix: "use another checkpoint"}
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return x, bad(err.Error())
	}
	if x.Format != format {
		return x, bad(fmt.Sprintf("format %d, this program reads %d", x.Format, format))
	}
	if len(x.Parts) == 0 {
		return x, bad("it lists no parts")
	}
	for _, p := range x.Parts {
		if p.Path != filepath.Base(p.Path) || !strings.HasPrefix(p.Path, "rank-") {
			return x, bad(fmt.Sprintf("part %q is not a file of this folder", p.Path))
		}
	}
	return x, nil
}

// Load reads a checkpoint and compares every tensor with its checksum.
//
// Errors: 66 if it is not there; 65 naming the tensor that is damaged, or the part
// that is missing.
func Load(dir string) (*Checkpoint, error) {
	c := &Checkpoint{Dir: dir}
	var err error
	c.Meta, err = readTensors(dir, func(e Entry, raw []byte) {
		c.Tensors = append(c.Tensors, Tensor{Name: e.Name, Shape: e.Shape, Data: decode(e.DType, raw)})
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// verify is Load without keeping the tensors.
func verify(dir string) error {
	_, err := readTensors(dir, func(Entry, []byte) {})
	return err
}

func readTensors(dir string, take func(Entry, []byte)) (Meta, error) {
	x, err := readIndex(dir)
	if err != nil {
		return x.Meta, err
	}
	for _, p := range x.Parts {
		path := filepath.Join(dir, p.Path)
		bad := func(at, why string) error {
			return &exit.Error{Code: exit.BadData, What: "the checkpoint is damaged", At: at, Why: why, Fix: "use another checkpoint"}
		}
		st, err := os.Stat(path)
		if err != nil {
			return x.Meta, bad(path, "this part is missing")
		}
		if st.Size() != p.Size {
			return x.Meta, bad(path, fmt.Sprintf("it has %d bytes, the index says %d", st.Size(), p.Size))
		}
		i := 0
		_, err = eachTensor(path, func(e Entry, raw []byte) error {
			at := path + ", tensor " + e.Name
			if i >= len(p.Tensors) || p.Tensors[i].Name != e.Name || p.Tensors[i].DType != e.DType || !slices.Equal(p.Tensors[i].Shape, e.Shape) {
				return bad(at, "the index does not list it at this place: the part is of another checkpoint")
			}
			if sum := checksum(raw); sum != p.Tensors[i].CRC32C {
				return bad(at, fmt.Sprintf("its checksum is %08x, the index says %08x", sum, p.Tensors[i].CRC32C))
			}
			i++
			take(e, raw)
			return nil
		})
		if err != nil {
			return x.Meta, err
		}
		if i != len(p.Tensors) {
			return x.Meta, bad(path, "tensor "+p.Tensors[i].Name+" is missing")
		}
		if file, err := manifest.SumFile(path); err != nil || file.SHA256 != p.SHA256 {
			return x.Meta, bad(path, "its SHA-256 differs from the index: the header was changed")
		}
	}
	return x.Meta, nil
}

// List gives the steps that have a checkpoint, ascending. A root that does not
// exist has none.
func List(root string) ([]uint64, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.ReadError(root, err)
	}
	var steps []uint64
	for _, e := range entries {
		var step uint64
		if !e.IsDir() || !dirPattern.MatchString(e.Name()) {
			continue
		}
		if _, err := fmt.Sscanf(e.Name(), "step-%d", &step); err == nil && Name(step) == e.Name() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// LoadLatest loads the checkpoint that LATEST names. If it is damaged, the newest
// one before it that is whole, and a warning says so. Without any checkpoint it
// returns nil, nil, nil.
//
// Errors: 65 if there are checkpoints and none is whole.
func LoadLatest(root string) (*Checkpoint, []string, error) {
	steps, err := List(root)
	if err != nil || len(steps) == 0 {
		return nil, nil, err
	}
	if latest, ok := readPointer(root, latestFile); ok {
		// What was being written when the run died is newer than LATEST says;
		// it was never announced, so it does not count.
		steps = slices.DeleteFunc(steps, func(s uint64) bool { return s > latest })
	}
	var warnings []string
	var first error
	for _, step := range slices.Backward(steps) {
		c, err := Load(filepath.Join(root, Name(step)))
		if err == nil {
			return c, warnings, nil
		}
		if first == nil {
			first = err
		}
		var e *exit.Error
		if errors.As(err, &e) {
			warnings = append(warnings, fmt.Sprintf("checkpoint %s is not used: %s (%s)", Name(step), e.What, e.At))
		}
	}
	if first == nil {
		return nil, nil, nil
	}
	return nil, warnings, first
}

// MarkBest points BEST at the checkpoint of a step.
func MarkBest(root string, step uint64) error {
	path := filepath.Join(root, bestFile)
	return exit.CreateError(path, atomicfile.WriteFile(path, []byte(Name(step)+"\n")))
}

// Best is the step that BEST names, false if there is none.
func Best(root string) (uint64, bool) { return readPointer(root, bestFile) }

// Latest is the step that LATEST names, false if there is none.
func Latest(root string) (uint64, bool) { return readPointer(root, latestFile) }

func readPointer(root, file string) (uint64, bool) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return 0, false
	}
	name := strings.TrimSpace(string(text))
	var step uint64
	if _, err := fmt.Sscanf(name, "step-%d", &step); err != nil || Name(step) != name {
		return 0, false
	}
	return step, true
}

// Retain removes checkpoints but the newest keep ones, at least two, and the best.
// Call it after Save, which has verified the newest.
func Retain(root string, keep int) error {
	steps, err := List(root)
	if err != nil {
		return err
	}
	best, hasBest := Best(root)
	for _, step := range steps[:max(0, len(steps)-max(2, keep))] {
		if hasBest && step == best {
			continue
		}
		if err := removeAtomically(filepath.Join(root, Name(step))); err != nil {
			return exit.CreateError(root, err)
		}
	}
	return nil
}

// RemovePartial removes what killed writers left under root: hidden folders that were never
// given a name. The caller must be the only writer.
func RemovePartial(root string) error {
	left, err := filepath.Glob(filepath.Join(root, ".*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if name := filepath.Base(path); strings.HasPrefix(name, ".step-") || strings.HasPrefix(name, ".trash-") ||
			strings.HasPrefix(name, "."+latestFile) || strings.HasPrefix(name, "."+bestFile) {
			if err := os.RemoveAll(path); err != nil {
				return exit.CreateError(path, err)
			}
		}
	}
	return nil
}
