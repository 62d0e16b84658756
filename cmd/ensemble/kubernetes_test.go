package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// podTemplate is what these tests read of the template of a pod.
type podTemplate struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		Subdomain          string
		EnableServiceLinks *bool  `yaml:"enableServiceLinks"`
		RestartPolicy      string `yaml:"restartPolicy"`
		Containers         []podContainer
	}
}

type podContainer struct {
	Name           string
	Command, Args  []string
	Env            []struct{ Name, Value string }
	Ports          []struct{ Name string }
	StartupProbe   podProbe `yaml:"startupProbe"`
	LivenessProbe  podProbe `yaml:"livenessProbe"`
	ReadinessProbe podProbe `yaml:"readinessProbe"`
}

type podProbe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// podJob is what these tests read of a job of Kubernetes.
type podJob struct {
	Metadata struct{ Name string }
	Spec     jobSpec
}

type jobSpec struct {
	CompletionMode           string `yaml:"completionMode"`
	Completions, Parallelism int
	Template                 podTemplate
	PodFailurePolicy         struct {
		Rules []struct {
			Action      string
			OnExitCodes *struct {
				ContainerName string `yaml:"containerName"`
				Operator      string
				Values        []int
			} `yaml:"onExitCodes"`
		}
	} `yaml:"podFailurePolicy"`
}

const kubernetesDir = "../../docs/ops/kubernetes"

// readKubernetes reads the document of a kind in a file of docs/ops/kubernetes.
func readKubernetes(t *testing.T, file, kind string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kubernetesDir, file))
	if err != nil {
		t.Fatal(err)
	}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var n yaml.Node
		if err := documents.Decode(&n); errors.Is(err, io.EOF) {
			t.Fatalf("%s has no %s", file, kind)
		} else if err != nil {
			t.Fatal(err)
		}
		var head struct{ Kind string }
		if err := n.Decode(&head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != kind {
			continue
		}
		if err := n.Decode(into); err != nil {
			t.Fatal(err)
		}
		return
	}
}

// readJob reads the job of docs/ops/kubernetes.
func readJob(t *testing.T) (j podJob) {
	t.Helper()
	readKubernetes(t, "train.yaml", "Job", &j)
	return j
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

// kubernetesConfig writes a configuration of data.yaml into the folder of a trial, which is the volume.
func (t *trial) kubernetesConfig(name string) {
	t.Helper()
	var m struct{ Data map[string]string }
	readKubernetes(t.T, "data.yaml", "ConfigMap", &m)
	text, ok := m.Data[name]
	if !ok {
		t.Fatalf("data.yaml has no %s", name)
	}
	t.put(name, []byte(t.mounted(text)))
}

// mounted replaces the paths of a pod by those of a trial.
func (t *trial) mounted(text string) string {
	return strings.NewReplacer("/data/run", t.run, "/data", t.dir, "/etc/ensemble", t.dir).Replace(text)
}

// TestKubernetesPredict runs the container of predict.yaml as a process: without input it ends with an exit code that counts,
// stopped with one that is ignored, and with input it publishes the last initialisation. The rules of exit codes are those of
// docs/operations.md.
func TestKubernetesPredict(t *testing.T) {
	var c struct {
		Spec struct {
			JobTemplate struct{ Spec jobSpec } `yaml:"jobTemplate"`
		}
	}
	readKubernetes(t, "predict.yaml", "CronJob", &c)
	job := c.Spec.JobTemplate.Spec
	actions := map[int]string{}
	for _, r := range job.PodFailurePolicy.Rules {
		if r.OnExitCodes == nil {
			continue
		}
		if r.OnExitCodes.Operator != "In" || r.OnExitCodes.ContainerName != job.Template.Spec.Containers[0].Name {
			t.Errorf("%+v", r.OnExitCodes)
		}
		if v := r.OnExitCodes.Values; !slices.IsSorted(v) || v[0] < 1 { // Kubernetes refuses others
			t.Errorf("exit codes %v", v)
		}
		for _, code := range r.OnExitCodes.Values {
			actions[code] = r.Action
		}
	}
	page, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range exit.All {
		if x.Code == exit.OK {
			continue
		}
		row := regexp.MustCompile(`\| [^|]*\b` + strconv.Itoa(int(x.Code)) + `\b[^|]* \| (FailJob|Ignore|Count) \|`).FindSubmatch(page)
		if row == nil || string(row[1]) != actions[int(x.Code)] {
			t.Errorf("exit code %d: predict.yaml has %q, the page %q", x.Code, actions[int(x.Code)], row)
		}
	}
	if p := job.Template.Spec; p.RestartPolicy != "Never" || p.EnableServiceLinks == nil || *p.EnableServiceLinks {
		t.Errorf("restart policy %q, service links %v", p.RestartPolicy, p.EnableServiceLinks)
	}

	f := faulty(t)
	f.kubernetesConfig("predict.yaml")
	bin, fc := filepath.Join(f.dir, "bin"), filepath.Join(f.dir, "fc")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Mkdir(fc, 0o755)); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(os.Args[0])
	if err == nil {
		err = os.Symlink(program, filepath.Join(bin, "ensemble"))
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Template.Spec.Containers[0]
	start := func(deadline string) (*exec.Cmd, *printed) {
		line := append(append([]string{}, pod.Command...), pod.Args...)
		for i := range line {
			line[i] = f.mounted(line[i])
		}
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TZ=XST-14", "ENSEMBLE_MEMBERS_EXPECTED=4", "ENSEMBLE_MEMBERS_MINIMUM=3", "ENSEMBLE_MEMBERS_POLL=0.03s", "ENSEMBLE_MEMBERS_DEADLINE="+deadline)
		log := &printed{}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, log
	}
	ends := func(cmd *exec.Cmd, log *printed, want exit.Code) {
		t.Helper()
		_ = cmd.Wait() // the exit code is compared
		if got := exit.Code(cmd.ProcessState.ExitCode()); got != want {
			t.Errorf("ended with %d, want %d:\n%s", got, want, log)
		}
	}
	cmd, log := start("+0.1s")
	ends(cmd, log, exit.NotYet)
	cmd, log = start("+10m")
	eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "waiting") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ends(cmd, log, exit.SaveAndStop)
	day := time.Now().UTC().Truncate(12 * time.Hour)
	for _, init := range []time.Time{day, day.Add(12 * time.Hour)} { // the day or night may end meanwhile
		f.put("fc/"+name(init)+".grib2", join(cycle(init)...))
	}
	cmd, log = start("+10m")
	ends(cmd, log, exit.OK)
	found, _ := filepath.Glob(filepath.Join(f.dir, "products", "2*", "manifest.json"))
	if len(found) != 1 || !strings.Contains(found[0], name(day)) && !strings.Contains(found[0], name(day.Add(12*time.Hour))) {
		t.Errorf("products %q, want those of %s", found, name(day))
	}
}

// TestKubernetesServe runs the container of serve.yaml as a process: its probes succeed by the address of a pod, requests by
// the names of the Service are accepted, others are not. Labels and names of ports fit together.
func TestKubernetesServe(t *testing.T) {
	var d struct {
		Spec struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template podTemplate
		}
	}
	var service struct {
		Metadata struct{ Name string }
		Spec     struct {
			Selector map[string]string
			Ports    []struct {
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	var policy struct {
		Spec struct {
			PodSelector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"podSelector"`
			Ingress []struct{ Ports []struct{ Port string } }
		}
	}
	readKubernetes(t, "serve.yaml", "Deployment", &d)
	readKubernetes(t, "serve.yaml", "Service", &service)
	readKubernetes(t, "serve.yaml", "NetworkPolicy", &policy)
	pod := d.Spec.Template.Spec.Containers[0]
	labels, port := d.Spec.Template.Metadata.Labels, pod.Ports[0].Name
	if len(labels) == 0 || !maps.Equal(d.Spec.Selector.MatchLabels, labels) || !maps.Equal(service.Spec.Selector, labels) || !maps.Equal(policy.Spec.PodSelector.MatchLabels, labels) {
		t.Errorf("labels %v, of the Deployment %v, of the Service %v, of the NetworkPolicy %v", labels, d.Spec.Selector, service.Spec.Selector, policy.Spec.PodSelector)
	}
	if service.Spec.Ports[0].TargetPort != port || policy.Spec.Ingress[0].Ports[0].Port != port {
		t.Errorf("port %s, of the Service %s, of the NetworkPolicy %s", port, service.Spec.Ports[0].TargetPort, policy.Spec.Ingress[0].Ports[0].Port)
	}
	if links := d.Spec.Template.Spec.EnableServiceLinks; links == nil || *links {
		t.Error("service links set variables of the program")
	}

	f := faulty(t)
	f.kubernetesConfig("serve.yaml")
	if err := os.Mkdir(filepath.Join(f.dir, "fc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if pod.Args[0] != "serve" {
		t.Fatalf("arguments %q", pod.Args)
	}
	var args []string
	for _, a := range pod.Args[1:] {
		args = append(args, f.mounted(a))
	}
	s := f.serve(args...)
	s.awaitLog("the model is ready", 1)
	status := func(host, path string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	for name, p := range map[string]podProbe{"startup": pod.StartupProbe, "liveness": pod.LivenessProbe, "readiness": pod.ReadinessProbe} {
		if got := status("10.244.1.7:8642", p.HTTPGet.Path); got != http.StatusOK || p.HTTPGet.Port != port {
			t.Errorf("the %s probe: %d at %+v", name, got, p.HTTPGet)
		}
	}
	for _, suffix := range []string{"", ".default", ".default.svc", ".default.svc.cluster.local"} {
		host := fmt.Sprintf("%s%s:%d", service.Metadata.Name, suffix, service.Spec.Ports[0].Port)
		if got := status(host, "/status"); got != http.StatusOK {
			t.Errorf("%s: %d", host, got)
		}
	}
	if got := status("example.org", "/status"); got != http.StatusMisdirectedRequest {
		t.Errorf("another name: %d", got)
	}
	s.stop(syscall.SIGTERM)
}

// TestKubernetesTypes: the files of docs/ops/kubernetes are valid by the types of Kubernetes, which refuse unknown keys.
func TestKubernetesTypes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(kubernetesDir, "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	program := filepath.Join(t.TempDir(), "kubecheck")
	if out, err := exec.Command("go", "build", "-C", filepath.Join("..", "..", "scripts", "kubecheck"), "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check := func(files ...string) (string, error) {
		text, err := exec.Command(program, files...).CombinedOutput()
		return string(text), err
	}
	text, err := check(files...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, kind := range []string{"batch/v1 CronJob", "batch/v1 Job", "apps/v1 Deployment", "v1 Service", "v1 PersistentVolumeClaim", "v1 ConfigMap", "networking.k8s.io/v1 NetworkPolicy"} {
		if !strings.Contains(text, kind+"\n") {
			t.Errorf("no %s in\n%s", kind, text)
		}
	}
	good, err := os.ReadFile(filepath.Join(kubernetesDir, "predict.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for old, wrong := range map[string]string{"backoffLimit: 6": "backofLimit: 6", "backoffLimit: 6 ": "backoffLimit: many ", "kind: CronJob": "kind: CronJobs"} {
		path := filepath.Join(t.TempDir(), "wrong.yaml")
		bad := bytes.Replace(good, []byte(strings.TrimSpace(old)), []byte(strings.TrimSpace(wrong)), 1)
		if err := os.WriteFile(path, bad, 0o644); err != nil || bytes.Equal(bad, good) {
			t.Fatal(old, err)
		}
		if text, err := check(path); err == nil {
			t.Errorf("%s is valid: %s", wrong, text)
		}
	}
}
