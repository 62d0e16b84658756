// Command kubecheck decodes files of Kubernetes strictly by the types of its API: an unknown key, a value of another type and
// an unknown kind are errors. It is a module of its own, so that the program does not depend on Kubernetes.
//
//	go run . FILE...
//
// Exit: 0 all are valid; 1 one is not; 64 no file.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubecheck FILE...")
		os.Exit(64)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	bad := false
	for _, path := range os.Args[1:] {
		if err := check(decoder, path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

// check decodes the documents of a file and prints their kinds and names.
func check(decoder runtime.Decoder, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	documents := yaml.NewDocumentDecoder(f)
	text := make([]byte, 1<<20)
	for n := 1; ; n++ {
		k, err := documents.Read(text)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(bytes.TrimSpace(text[:k])) == 0 {
			continue
		}
		_, kind, err := decoder.Decode(text[:k], nil, nil)
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		fmt.Println(path, kind.GroupVersion(), kind.Kind)
	}
}
