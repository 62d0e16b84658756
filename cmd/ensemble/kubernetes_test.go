package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// podJob is what this test reads of a job of Kubernetes.
type podJob struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		Template                 struct {
			Spec struct {
				Subdomain  string
				Containers []struct {
					Args []string
					Env  []struct{ Name, Value string }
				}
			}
		}
	}
}

// readJob reads the job of docs/ops/kubernetes.
func readJob(t *testing.T) podJob {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ops", "kubernetes", "train.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var j podJob
		if err := documents.Decode(&j); errors.Is(err, io.EOF) {
			t.Fatal("no Job")
		} else if err != nil {
			t.Fatal(err)
		}
		if j.Kind == "Job" {
			return j
		}
	}
}

// start starts the container of each pod as a process, with the volume at dir and the name of the first pod as this machine.
func (j podJob) start(t *testing.T, dir string, pods int) []*exec.Cmd {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	container := j.Spec.Template.Spec.Containers[0]
	var all []*exec.Cmd
	for i := range pods {
		cmd := exec.Command(os.Args[0])
		for _, a := range container.Args {
			cmd.Args = append(cmd.Args, strings.ReplaceAll(a, "/data", dir))
		}
		cmd.Env = append(os.Environ(), "JOB_COMPLETION_INDEX="+strconv.Itoa(i), "GOMAXPROCS=1")
		for _, e := range container.Env {
			switch e.Name {
			case "ENSEMBLE_COORDINATOR":
				first := fmt.Sprintf("%s-0.%s:", j.Metadata.Name, j.Spec.Template.Spec.Subdomain)
				if !strings.HasPrefix(e.Value, first) {
					t.Fatalf("the coordinator is %s, the first pod %s", e.Value, first)
				}
				e.Value = at
			case "ENSEMBLE_RANKS":
				if e.Value != strconv.Itoa(j.Spec.Completions) || j.Spec.Parallelism != j.Spec.Completions || j.Spec.CompletionMode != "Indexed" {
					t.Fatalf("%s ranks on %d of %d pods", e.Value, j.Spec.Parallelism, j.Spec.Completions)
				}
				e.Value = strconv.Itoa(pods)
			}
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("pod%d-of-%d.log", i, pods)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	return all
}

// TestKubernetesJob runs the containers of docs/ops/kubernetes as processes. One is killed: the others end with 71, and two
// processes continue the training of four to the weights of an uninterrupted one.
func TestKubernetesJob(t *testing.T) {
	f := faulty(t)
	text, err := os.ReadFile(f.config)
	if err != nil {
		t.Fatal(err)
	}
	config := f.put("train.yaml", bytes.Replace(text, []byte("epochs: 1,"), []byte(`mesh: "lat:2 lon:2", epochs: 40,`), 1))
	whole, run := filepath.Join(f.dir, "whole"), filepath.Join(f.dir, "run")
	f.expect(exit.OK, nil, "train", "-c", config, "--run-dir", whole, "--progress", "none")
	j := readJob(t)
	pods := j.start(t, f.dir, j.Spec.Completions)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(run, "checkpoints", "LATEST")); err == nil {
			break
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("no checkpoint")
		}
	}
	if err := pods[2].Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for i, p := range pods {
		err := p.Wait()
		if code := p.ProcessState.ExitCode(); i != 2 && code != int(exit.RankLost) {
			log, _ := os.ReadFile(filepath.Join(f.dir, fmt.Sprintf("pod%d-of-4.log", i)))
			t.Errorf("pod %d: %v\n%s", i, err, log)
		}
	}
	for i, p := range j.start(t, f.dir, 2) {
		if err := p.Wait(); err != nil {
			log, _ := os.ReadFile(filepath.Join(f.dir, fmt.Sprintf("pod%d-of-2.log", i)))
			t.Fatalf("pod %d of 2: %v\n%s", i, err, log)
		}
	}
	weights := func(run string) string { return tree(t, filepath.Join(run, "model"))["/weights-00.safetensors"] }
	if got, want := weights(run), weights(whole); got != want || want == "" {
		t.Errorf("weights %s, want %s", got, want)
	}
}
