// Package cublaslt multiplies matrices with cuBLASLt, which it opens at run time.
//
// A product has many algorithms, which cuBLASLt names best guess first. Each makes a Plan,
// which has a name that does not change from run to run and wants a workspace of its own
// size; the caller measures and chooses. Plans give the same bits for the same inputs, and
// add up in float32: algorithms that add parts of a sum in the type of the result are left
// out.
//
//	lib, err := cublaslt.Open(nil)
//	h, err := lib.New(loaded)                    // of one device
//	plans, err := h.Plans(product, cublaslt.Limits{Workspace: 32 << 20})
//	err = plans[0].Run(cublaslt.Operands{A: a, B: b, D: d, Workspace: scratch})
//
// Matrices lie here in rows. cuBLASLt counts in columns, in which the transpose of the same
// memory lies: it is asked for Dᵀ = op(B)ᵀ·op(A)ᵀ.
//
// Source: NVIDIA, cuBLAS library, chapter cuBLASLt, and the comments of cublasLt.h.
package cublaslt

import (
	"errors"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

var (
	// ErrUnavailable marks that the library, one of its functions or the device is not there.
	ErrUnavailable = errors.New("cuBLASLt is not available")
	// ErrUnsupported marks a product for which no algorithm of cuBLASLt answers the wishes.
	ErrUnsupported = errors.New("no algorithm of cuBLASLt does this")
)

// CallError is a call of cuBLASLt that failed.
type CallError struct {
	Call   string // "cublasLtMatmul"
	What   string // what it was for
	Status int
	Name   string // "CUBLAS_STATUS_INVALID_VALUE"
	Detail string // cuBLASLt's words for the status
}

func (e *CallError) Error() string {
	return fmt.Sprintf("%s for %s: %s (%d): %s", e.Call, e.What, e.Name, e.Status, e.Detail)
}

// notSupported is the status of what cuBLASLt cannot do.
const notSupported = 15

// Type is how values are stored. Products are added up in float32 in all of them.
type Type int

// The types.
const (
	Float32 Type = iota
	BFloat16
	Float16
)

func (t Type) String() string { return [...]string{"float32", "bfloat16", "float16"}[t] }

// Product is a product of matrices, or of Batch pairs of them:
//
//	D = Scale·op(A)·op(B) + Beta·C, then + bias, then ReLU
//
// op(A) is M×K, op(B) K×N; C and D are M×N. Matrices lie in rows.
type Product struct {
	M, N, K int
	// TransA says that A lies as [K M], TransB that B lies as [N K].
	TransA, TransB bool
	// Row is the number of elements from one row to the next of A, B, and of C and D;
	// 0 is that of a row.
	RowA, RowB, RowD int
	// Batch is the number of products, 0 is 1; Next the elements from one matrix to the next:
	// 0 takes the same one for all.
	Batch               int
	NextA, NextB, NextD int
	Type                Type // of A and B
	Result              Type // of C, D and the bias: float32, or that of A and B
	// TF32 lets float32 factors be rounded to 11 bits of mantissa; Type is Float32.
	TF32  bool
	Scale float32 // 0 is 1
	Beta  float32
	// Bias adds a number to each column of D, ReLU puts 0 in place of what is negative then.
	Bias, ReLU bool
}

// side is a matrix as it lies.
type side struct{ rows, cols, row, next int }

// sides are A, B and D.
func (p *Product) sides() [3]side {
	a, b := side{p.M, p.K, p.RowA, p.NextA}, side{p.K, p.N, p.RowB, p.NextB}
	if p.TransA {
		a.rows, a.cols = p.K, p.M
	}
	if p.TransB {
		b.rows, b.cols = p.N, p.K
	}
	all := [3]side{a, b, {p.M, p.N, p.RowD, p.NextD}}
	for i := range all {
		if all[i].row == 0 {
			all[i].row = all[i].cols
		}
	}
	return all
}

func (p *Product) String() string {
	return fmt.Sprintf("a product of %d×%d×%d", p.M, p.K, p.N)
}

// check refuses what is no product.
func (p *Product) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("cublaslt: %v: %s", p, fmt.Sprintf(format, args...))
	}
	if p.M < 1 || p.N < 1 || p.K < 1 || p.M > math.MaxInt32 || p.N > math.MaxInt32 || p.K > math.MaxInt32 {
		return wrong("sizes are from 1 to 2³¹−1")
	}
	if p.Type < Float32 || p.Type > Float16 || p.Result < Float32 || p.Result > Float16 {
		return wrong("types %d and %d: there are 0 to %d", p.Type, p.Result, Float16)
	}
	if p.Result != Float32 && p.Result != p.Type {
		return wrong("%v of %v: the result is float32 or of the type of the factors", p.Result, p.Type)
	}
	if p.TF32 && p.Type != Float32 {
		return wrong("TF32 is a way to multiply float32, not %v", p.Type)
	}
	if p.Batch < 0 || p.Batch > math.MaxInt32 {
		return wrong("%d of them", p.Batch)
	}
	for i, s := range p.sides() {
		if s.row < s.cols || s.next < 0 {
			return wrong("matrix %c: rows of %d elements begin every %d, matrices every %d", "ABD"[i], s.cols, s.row, s.next)
		}
	}
	if d := p.sides()[2]; p.Batch > 1 && d.next < (d.rows-1)*d.row+d.cols {
		return wrong("matrix D: matrices of %d rows begin every %d elements and overlap", d.rows, d.next)
	}
	return nil
}

// Limits say which plans are wanted.
type Limits struct {
	Workspace int64 // bytes at most; 0 wants plans without
	Most      int   // plans at most; 0 is 8
}

// Operands are where the matrices lie on the device, aligned to 16 bytes.
type Operands struct {
	A, B, D   device.Pointer
	C         device.Pointer // nil is D; matters if Beta is not 0
	Bias      device.Pointer // of a product with a bias
	Workspace device.Pointer // nil if the plan wants none
}

// Alignment is that of all operands, in bytes.
const Alignment = 16
