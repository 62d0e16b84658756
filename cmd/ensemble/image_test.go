package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestImageDigests: `make image` takes the base images of the Containerfile by the digests of image.lock, or by those that the
// builder finds, which it writes down; the image is labelled with version, revision and base. The builder of this test prints
// its arguments: no image can be made in a test without a registry.
func TestImageDigests(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"Containerfile": 0o644, "scripts/image.sh": 0o755} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		put(name, string(text), mode)
	}
	put("bin/podman", `#!/bin/bash
case $1-$2 in
pull-*) echo pulled "$2" ;;
image-inspect) [ -z "$NO_DIGEST" ] && echo "docker.io/library/debian@sha256:$(printf %s "${*: -1}" | sha256sum | cut -c1-64)" ;;
build-*) printf '%s\n' "$@" ;;
esac
`, 0o755)
	run := func(extra ...string) (string, error) {
		cmd := exec.Command(filepath.Join(dir, "scripts", "image.sh"), "registry.example.org/ensemble:1", "v1.2.3", "--build-arg", "a=b c")
		cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH")), extra...)
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	if text, err := run(); err == nil || !strings.Contains(text, ".git is not a folder") {
		t.Errorf("without a clone: %v\n%s", err, text)
	}
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "x"}} {
		if text, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if text, err := run("NO_DIGEST=1"); err == nil || !strings.Contains(text, "no digest of docker.io/library/debian:bookworm") {
		t.Errorf("a builder without digests: %v\n%s", err, text)
	}
	first, err := run()
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	lock, err := os.ReadFile(filepath.Join(dir, "build", "image.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^docker.io/library/debian:bookworm sha256:[0-9a-f]{64}\ndocker.io/library/debian:bookworm-slim sha256:[0-9a-f]{64}\n$`).Match(lock) {
		t.Errorf("the lock is %q", lock)
	}
	sums := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindAllString(string(lock), -1)
	revision, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BUILDBASE=docker.io/library/debian@" + sums[0], "BASE=docker.io/library/debian@" + sums[1], "org.opencontainers.image.version=v1.2.3",
		"org.opencontainers.image.revision=" + strings.TrimSpace(string(revision)), "org.opencontainers.image.base.name=docker.io/library/debian:bookworm-slim", "org.opencontainers.image.base.digest=" + sums[1],
		"a=b c", "registry.example.org/ensemble:1", "--format\ndocker"} {
		if !strings.Contains(first, want+"\n") {
			t.Errorf("the builder is not told %q:\n%s", want, first)
		}
	}
	if !regexp.MustCompile(`image\.created=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\n`).MatchString(first) {
		t.Errorf("no time of the commit in UTC:\n%s", first)
	}

	own := "sha256:" + strings.Repeat("0", 64)
	put("image.lock", "docker.io/library/debian:bookworm "+own+"\ndocker.io/library/debian:bookworm-slim "+own+"\n", 0o644)
	if text, err := run(); err != nil || strings.Contains(text, "pulled") || strings.Count(text, "debian@"+own) != 2 {
		t.Errorf("with a lock: %v\n%s", err, text)
	}
	put("image.lock", "docker.io/library/debian:bookworm "+own+"\n", 0o644)
	if text, err := run(); err == nil || !strings.Contains(text, "image.lock has no digest of docker.io/library/debian:bookworm-slim") {
		t.Errorf("half a lock: %v\n%s", err, text)
	}
}
