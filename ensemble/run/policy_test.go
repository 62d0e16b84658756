package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Of the samples of an epoch as many take each number of members, each member as often, and
// all of them the first.
func TestFewer(t *testing.T) {
	used := []int{0, 3, 4, 7, 9}
	if got := fewer(used, 0, 1, 2, 3); !slices.Equal(got, used) {
		t.Errorf("without a least number: %v", got)
	}
	if got := fewer(used, 5, 1, 2, 3); !slices.Equal(got, used) {
		t.Errorf("with all: %v", got)
	}
	const draws = 6000
	number, member := map[int]int{}, map[int]int{}
	for i := range uint64(draws) {
		got := fewer(used, 3, 7, i%6, i)
		if again := fewer(used, 3, 7, i%6, i); !slices.Equal(got, again) || !slices.IsSorted(got) || got[0] != 0 {
			t.Fatalf("%v, then %v", got, again)
		}
		number[len(got)]++
		for _, m := range got {
			member[m]++
		}
	}
	// Binomial counts are within five standard deviations, 5 sqrt(n p (1-p)) < 200.
	for n := 3; n <= 5; n++ {
		if d := number[n] - draws/3; d < -200 || d > 200 {
			t.Errorf("%d of %d samples have %d members", number[n], draws, n)
		}
	}
	for _, m := range used[1:] { // 3 of the 4 on average
		if d := member[m] - draws*3/4; d < -200 || d > 200 {
			t.Errorf("member %d is in %d of %d samples", m, member[m], draws)
		}
	}
}

// Members that are missing at some starts only: each start has its own, the same bytes come
// of any number of ranks, also where these wait.
func TestPolicyOnRanks(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	want, dir := t.TempDir(), t.TempDir()
	o := predictOptions(t, want)
	o.Input = slices.Clone(o.Input)
	in, err := fio.Open(context.Background(), o.Input, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	past := time.Now().Add(-time.Hour)
	for i, path := range o.Input {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var kept []byte
		for _, e := range byPlace(in.Catalogue().Select(func(e ensemble.Entry) bool { return e.File == path })) {
			if e.Member != ensemble.Member(i) || i == 0 {
				kept = append(kept, text[e.Offset:e.Offset+e.Length]...)
			}
		}
		o.Input[i] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(o.Input[i], kept, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(o.Input[i], past, past); err != nil {
			t.Fatal(err)
		}
	}
	o.Policy = config.Policy{Members: config.InputMembers{OnShort: "degrade", Poll: 10 * time.Millisecond}}
	alone, err := Predict(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if alone.Cycles != 5 || alone.Degraded != 2 { // members 1 and 2 are used, 3 is not, and there is no 4
		t.Errorf("%+v", alone)
	}
	o.Out, o.Deadline = t.TempDir(), time.Now().Add(100*time.Millisecond)
	results, err := predictOnRanks(3, background, o)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, o.Out, want)
	for r, res := range results {
		if res.Cycles != alone.Cycles || res.Degraded != alone.Degraded || !slices.Equal(res.Warnings, alone.Warnings) {
			t.Errorf("rank %d of 3: %+v, alone %+v", r, res, alone)
		}
	}
}

// A wait that is told to stop ends at once, on all ranks.
func TestWaitIsStopped(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	o.Input, o.Deadline = []string{filepath.Join(t.TempDir(), "never.grib2")}, time.Now().Add(time.Hour)
	o.Policy.Members.Poll = 10 * time.Minute
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Predict(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("alone: %v", err)
	}
	stopped, stop := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, stop)
	if _, err := predictOnRanks(2, func(int) context.Context { return stopped }, o); exit.CodeOf(err) != exit.SaveAndStop {
		t.Errorf("two ranks: %v", err)
	}
	if d := time.Since(begin); d > 5*time.Minute { // less than the time between two looks
		t.Errorf("it took %s", d)
	}
}
