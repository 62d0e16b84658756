package run

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// InProcess is the transport of ranks that are goroutines of one process.
const InProcess = "in-process"

// Follows tells whether an MPI launcher started this process as a rank other than 0.
// Such a process does its part of the work and leaves the answer to rank 0.
func Follows() bool {
	l, launched := mpi.Launched(os.Getenv)
	return launched && l.Rank > 0
}

// onRanks calls f on the ranks of a job: on this process's rank if an MPI launcher
// started it, else on n ranks of this process; on parts of these if there are more parts.
// transport names what joins them. A rank that waits for another for stall takes it for
// lost.
//
// Errors: what f gives on a rank; exit 64 if n is given and differs from the launcher's
// number; exit 71 if a rank was lost.
func onRanks(n, parts int, stall time.Duration, f func(c *comm.Comm) error) (transport string, err error) {
	onOwn := func(c *comm.Comm) error { return onParts(c, parts, f) }
	l, launched := mpi.Launched(os.Getenv)
	if !launched {
		return InProcess, comm.Run(max(n, 1), comm.Free, onOwn)
	}
	name := l.Implementation.Name
	if n > 0 && n != l.Size {
		return name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--ranks %d in a job of %d ranks", n, l.Size),
			Why: "the launcher says how many ranks there are", Fix: "leave out --ranks"}
	}
	w, err := mpi.Join(l, stall)
	if err != nil {
		return name, err
	}
	if err = onOwn(comm.New(w)); err != nil && !agreed(err) {
		return name, lost(err) // a process that ends without leaving the job ends the job
	}
	closed := w.Close()
	if err != nil && w.Rank() > 0 {
		time.Sleep(lastWord)
	}
	return name, errors.Join(err, closed)
}

// lastWord is the time that rank 0 has to say why all ranks stop, before another one ends with
// its exit code: launchers kill a job when its first process fails. A launcher that does so
// when rank 0 ends cuts the wait short.
const lastWord = time.Second

// lost gives the failure of another rank its exit code.
func lost(err error) error {
	var r *comm.RankError
	if !errors.As(err, &r) || exit.CodeOf(err) == exit.RankLost {
		return err
	}
	return &exit.Error{Code: exit.RankLost, What: fmt.Sprintf("rank %d was lost", r.Rank), Why: err.Error(),
		Fix: "look at its messages, and run the same command again, train with --resume auto", Err: err}
}

// team is the ranks that work on one thing together, a training or a prediction; nil is
// one rank alone.
type team struct {
	c    *comm.Comm
	mesh spatial.Mesh
	slab *slab // of this rank; nil before fields are laid out
	// rows is the number of groups of ranks that share the samples of a batch; 0 if all ranks
	// compute all.
	rows int
	// shared tells whether the ranks share the optimiser of a training.
	shared bool
}

// newTeam is nil for a group of one.
func newTeam(c *comm.Comm) *team {
	if c == nil || c.Size() == 1 {
		return nil
	}
	return &team{c: c}
}

// open opens the run directory on the leading rank; the others look on.
func (t *team) open(o TrainOptions, identity string) (*rundir.Dir, rundir.State, error) {
	var dir *rundir.Dir
	state := rundir.Fresh
	if t.leads() {
		var err error
		if dir, state, err = rundir.Open(o.RunDir, rundir.Options{Identity: identity, Resume: o.Resume != "", Overwrite: o.Overwrite}); err != nil {
			return nil, state, err
		}
	}
	s, err := t.agree(int64(state))
	if err != nil && dir != nil {
		err = errors.Join(err, dir.Close())
	}
	if dir == nil {
		dir = rundir.View(o.RunDir)
	}
	return dir, rundir.State(s), err
}

// join lays a team out on the mesh of the configuration, or the one that suits its
// fields best, and gives every rank its slab of them.
//
// Errors: exit 64 for a mesh of fewer parts than ranks.
func (t *team) join(c *config.TrainConfig, grid *ensemble.Grid) error {
	if t == nil {
		return nil
	}
	t.shared = c.Train.Train.ShardOptimizer
	n, batch := t.c.Size(), c.Train.Train.BatchSize
	var err error
	if text := c.Train.Train.Mesh; text != "" && text != autoMesh {
		t.mesh, err = spatial.ParseMesh(text)
	} else {
		t.mesh, err = t.fastest(c, grid)
	}
	if err != nil {
		return err
	}
	if t.mesh.Size() != n {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a mesh of %d ranks (%v) in a job of %d", t.mesh.Size(), t.mesh, n), At: "train.mesh",
			Why: "every rank has a part of the mesh", Fix: "change train.mesh, or start as many ranks as it has parts, or fewer"}
	}
	return t.layOut(specOf(c), taskOf(c), grid, batch)
}

// fastest is the mesh on which a step is predicted to take least time, as rank 0 finds it.
func (t *team) fastest(c *config.TrainConfig, grid *ensemble.Grid) (spatial.Mesh, error) {
	k := unfitted(taskOf(c))
	g, err := specOf(c).graph(&k, grid, c.Train.Train.BatchSize, uint64(c.Train.Train.Seed), true)
	if err != nil {
		return nil, err
	}
	m, err := fastestMesh(g, machineOf(c), t.c.Size(), optimiserOf(&c.Train.Train), "train.mesh")
	if err != nil {
		return nil, err
	}
	length, err := t.agree(int64(len(m.String())))
	if err != nil {
		return nil, err
	}
	text := make([]byte, length)
	copy(text, m.String())
	if err := comm.Broadcast(t.c, 0, text); err != nil {
		return nil, err
	}
	return spatial.ParseMesh(string(text))
}

// size is the number of ranks.
func (t *team) size() int {
	if t == nil {
		return 1
	}
	return t.c.Size()
}

// leads tells whether this rank writes what the ranks leave.
func (t *team) leads() bool { return t == nil || t.c.Rank() == 0 }

// agree gives all ranks the number that the leading one has.
func (t *team) agree(n int64) (int64, error) {
	if t == nil {
		return n, nil
	}
	x := []int64{n}
	err := comm.Broadcast(t.c, 0, x)
	return x[0], err
}

// sameProgram refuses ranks that run another program than rank 0.
//
// Errors: exit 71 with those ranks.
func (t *team) sameProgram(version string) error {
	if t == nil {
		return nil
	}
	sum, err := programSum()
	if err != nil {
		return err
	}
	return t.same("the program", version+sum)
}

// programSum is the checksum of this program, which its parts need once.
var programSum = sync.OnceValues(func() (string, error) {
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

// same refuses ranks that do not have the same text of something.
//
// Errors: exit 71 with the ranks that differ from rank 0.
func (t *team) same(what, text string) error {
	if t == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	all, err := comm.AllGather(t.c, []int64{int64(binary.LittleEndian.Uint64(sum[:]))})
	if err != nil {
		return err
	}
	var other []int
	for r, s := range all {
		if s != all[0] {
			other = append(other, t.c.Process(r))
		}
	}
	if other == nil {
		return nil
	}
	return &jointError{&exit.Error{Code: exit.RankLost, What: fmt.Sprintf("the ranks do not agree: %s", what), At: fmt.Sprintf("ranks %v differ from rank 0", slices.Compact(other)),
		Why: "all ranks work for one result", Fix: "give all nodes the same program, configuration and files"}}
}

// stop is asked for all ranks together: if one is told to stop, all are, and if one could
// not read what is needed next, all have its error.
func (t *team) stop(own func() error) func(read error) error {
	if t == nil {
		return func(read error) error {
			if read != nil {
				return read
			}
			return own()
		}
	}
	return func(read error) error {
		err := own()
		told := []int64{0, 0}
		if err != nil {
			told[0] = 1
		}
		if read != nil {
			told[1] = 1
		}
		if e := comm.AllReduce(t.c, told, comm.Auto); e != nil {
			return e
		}
		if told[1] > 0 {
			_, err := tell(t, outcome[bool]{}, read)
			return err
		}
		if err == nil && told[0] > 0 {
			err = &exit.Error{Code: exit.SaveAndStop, What: "another rank was told to stop", Fix: "go on with --resume auto"}
		}
		return err
	}
}

// rankCosts is what working together has cost a rank so far.
type rankCosts struct {
	sums spatial.SumCosts
	sent comm.Traffic
}

// costs are those of the present network; none for one rank alone.
func (t *trainer) costs() rankCosts {
	if t.ranks == nil {
		return rankCosts{}
	}
	return rankCosts{t.net.part.SumCosts(), t.ranks.c.Traffic()}
}

// since is what was added to earlier costs, as values of an event.
func (c rankCosts) since(earlier rankCosts) []rundir.Value {
	return []rundir.Value{
		{Name: "sums_s", Value: (c.sums.Running - earlier.sums.Running).Seconds()},
		{Name: "sums_waited_s", Value: (c.sums.Exposed - earlier.sums.Exposed).Seconds()},
		{Name: "sent_bytes", Value: c.sent.Sub(earlier.sent).Bytes},
	}
}

// sum adds up a number of all ranks.
func (t *team) sum(x float64) (float64, error) {
	if t == nil {
		return x, nil
	}
	v := []float64{x}
	err := comm.AllReduce(t.c, v, comm.Auto)
	return v[0], err
}

// Of a file samples of sampleBytes are compared between ranks, from its start to its end.
const (
	samples     = 16
	sampleBytes = 4 << 10
)

// sample writes samples of a file to h, all of it if it is short, and gives its size; of a
// folder those of some of its files.
func sample(h io.Writer, path string) (size int64, err error) {
	parts, err := manifest.Parts(path)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		size += p.Size()
		fmt.Fprintln(h, p.Path, p.Size())
	}
	for i := range min(samples, len(parts)) {
		if err := samplePart(h, filepath.Join(path, parts[i*len(parts)/min(samples, len(parts))].Path)); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// samplePart is sample for one file.
func samplePart(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for i := range int64(samples) {
		at := max(0, st.Size()-sampleBytes) * i / (samples - 1)
		if _, err := io.Copy(h, io.NewSectionReader(f, at, sampleBytes)); err != nil {
			return err
		}
	}
	return nil
}

// sums measures input files. Several ranks deal them out, and all look at their sizes and
// at samples of their bytes.
//
// Errors: those of manifest.Sum; exit 71 for ranks that see other files.
func (t *team) sums(files []string) ([]manifest.File, error) {
	w := crew{all: t}
	sizes := make([]int64, len(files))
	seen := sha256.New()
	var err error
	for i, f := range files {
		if sizes[i], err = sample(seen, f); err != nil {
			err = exit.Read(f, err)
			break
		}
	}
	if err := t.together(err); err != nil {
		return nil, err
	}
	if err := t.same("a file that is read", fmt.Sprintf("%v %v %x", files, sizes, seen.Sum(nil))); err != nil {
		return nil, err
	}
	own, err := manifest.Sum(mine(w, files)...)
	if t == nil {
		return own, err
	}
	all, err := tell(t, outcome[[]manifest.File]{Result: own}, err)
	if err != nil {
		return nil, err
	}
	out := make([]manifest.File, len(files))
	for i := range files {
		out[i] = all[i%len(all)].Result[i/len(all)]
	}
	return out, nil
}
