#!/usr/bin/env python3
"""Predictions of the networks of pytorch.py by inference runtimes on CPUs: OpenVINO and ONNX Runtime.

    V/bin/pip install torch numpy openvino nncf onnxruntime onnx onnxscript
    V/bin/python benchmarks/runtimes.py --model unet3d --base 8,32 --crop 64,128 --threads 1,0

One JSON line for every case and form on standard output, with the keys of pytorch.py. PyTorch exports
a network to a file in one process; another process, without PyTorch, loads and measures it, so that
peak memory is the runtime's. relative_output_error is the distance of the outputs from PyTorch's in
float64, relative to their length; the filters are random.

Forms are a runtime with the network as published, `_fold` for depth folded into channels, `_bf16` for
products of bfloat16, `_int8` for convolutions quantised after training with scales from four random inputs.

Threads of ONNX Runtime spin, as by default, unless OMP_WAIT_POLICY=passive; those of OpenVINO always do.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import pytorch as peer

FORMS = {
    "unet3d": ["openvino", "openvino_fold", "openvino_bf16", "openvino_fold_bf16", "openvino_int8", "openvino_fold_int8",
               "onnxruntime", "onnxruntime_fold", "onnxruntime_fold_int8"],
    "resnet2d_simple": ["openvino", "openvino_bf16", "openvino_int8", "onnxruntime", "onnxruntime_int8"],
}
CALIBRATION = 4  # random inputs


def published(model, form):
    """The form of pytorch.py that is exported."""
    return "fold" if "fold" in form.split("_") else peer.PUBLISHED[model][0]


def inputs(case, n):
    """A list of random inputs."""
    return [peer.Case(case, peer.PUBLISHED[case["model"]][0], draw=k).x for k in range(n)]


def export(r):
    """Writes network, input and the outputs of float64 into the folder r["dir"]."""
    import numpy as np
    import torch
    c, form, folder = r["case"], r["form"], r["dir"]
    x = inputs(c, 1)[0]
    np.save(f"{folder}/x.npy", x.numpy())
    with torch.no_grad():
        exact = peer.Case(c, peer.PUBLISHED[c["model"]][0], torch.float64).net.eval()
        np.save(f"{folder}/y.npy", exact(x.double()).numpy())
    net = peer.Case(c, published(c["model"], form)).net.eval()
    words = form.split("_")
    if words[0] == "openvino":
        import openvino as ov
        with torch.no_grad():
            m = ov.convert_model(net, example_input=x, input=[list(x.shape)])
        if "int8" in words:
            import nncf
            m = nncf.quantize(m, nncf.Dataset(inputs(c, CALIBRATION), lambda a: a.numpy()))
        ov.save_model(m, f"{folder}/net.xml", compress_to_fp16=False)
    else:
        torch.onnx.export(net, (x,), f"{folder}/net.onnx", dynamo=True, external_data=False)
        if "int8" in words:
            quantise_onnx(folder, inputs(c, CALIBRATION))
    return {}


def quantise_onnx(folder, draws):
    """Quantises net.onnx in place."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization import shape_inference
    import onnx
    name = onnx.load(f"{folder}/net.onnx", load_external_data=False).graph.input[0].name

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.left = iter(draws)

        def get_next(self):
            x = next(self.left, None)
            return None if x is None else {name: x.numpy()}

    shape_inference.quant_pre_process(f"{folder}/net.onnx", f"{folder}/prepared.onnx")
    q.quantize_static(f"{folder}/prepared.onnx", f"{folder}/net.onnx", Reader(), per_channel=True)


def openvino(folder, words, threads):
    """A function that predicts, and the version."""
    import openvino as ov
    options = {"INFERENCE_PRECISION_HINT": "bf16" if "bf16" in words else "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request = ov.Core().compile_model(f"{folder}/net.xml", "CPU", options).create_infer_request()
    return lambda x: request.infer({0: x})[0], f"OpenVINO {ov.__version__.split('-')[0]}"


def onnxruntime(folder, words, threads):
    """The same."""
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = threads
    o.add_session_config_entry("session.intra_op.allow_spinning", "0" if os.environ.get("OMP_WAIT_POLICY") == "passive" else "1")
    session = ort.InferenceSession(f"{folder}/net.onnx", o, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0], f"ONNX Runtime {ort.__version__}"


def predict(r):
    """Measures the network in the folder r["dir"]."""
    import numpy as np
    words = r["form"].split("_")
    run, version = {"openvino": openvino, "onnxruntime": onnxruntime}[words[0]](r["dir"], words, r["case"]["threads"])
    x, want = np.load(f"{r['dir']}/x.npy"), np.load(f"{r['dir']}/y.npy")
    got = run(x).astype(np.float64)
    error = math.sqrt(((got - want) ** 2).sum() / (want ** 2).sum())
    times, _ = peer.measure(lambda: run(x), r["steps"], r["seconds"])
    return {"predict_ms_median": statistics.median(times), "predict_ms_min": min(times), "predict_ms_max": max(times), "predict_steps": len(times),
            "predict_peak_mib": peer.peak_mib(), "relative_output_error": error if math.isfinite(error) else None, "runtime": version}


def process(request):
    """The answer of a process of its own."""
    p = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", json.dumps(request)], capture_output=True, text=True)
    return peer.answer(p)


def main():
    ap = argparse.ArgumentParser(description="Predictions of the networks of pytorch.py by OpenVINO and ONNX Runtime.")
    ap.add_argument("--model", default="unet3d", choices=sorted(FORMS))
    ap.add_argument("--forms", default="all", help="all, or a list; forms that are not of a runtime are left out")
    peer.case_flags(ap)
    ap.add_argument("--steps", type=int, default=0, help="0: as many as --seconds allows")
    ap.add_argument("--seconds", type=float, default=3.0)
    ap.add_argument("--gradient", help="ignored: runtimes have no gradients")
    ap.add_argument("--one", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.one:
        r = json.loads(a.one)
        print(json.dumps({"export": export, "predict": predict}[r["phase"]](r)))
        return
    for c in peer.cases(a):
        for form in FORMS[a.model] if a.forms == "all" else [f for f in a.forms.split(",") if f in FORMS[a.model]]:
            with tempfile.TemporaryDirectory() as folder:
                request = {"case": c, "form": form, "dir": folder, "steps": a.steps, "seconds": a.seconds}
                out = process(dict(request, phase="export"))
                if not out:
                    out = process(dict(request, phase="predict"))
            print(json.dumps(dict(c, form=form, channels=peer.CHANNELS, **out)), flush=True)


if __name__ == "__main__":
    main()
