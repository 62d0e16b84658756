#!/usr/bin/env bash
# Measures the engine on the GPU of this machine: conformance, benchmarks and the
# same work in PyTorch, alternately, within eight minutes, in one JSON file.
#
#   gpu.sh [--out FILE] [--quick] [--no-peer] [--budget SECONDS] [--emulated]
#
#   --out FILE     the report (gpu.json); the output of each part is in FILE.parts
#   --quick        only the first four minutes: no training on the processor for
#                  comparison, no narrow network, no sanitizer
#   --no-peer      without PyTorch
#   --budget N     seconds for everything (480)
#   --emulated     tiny sizes on the emulated device: checks this script, measures nothing
#
# The machine needs a driver, CUDA's libraries or the Python packages that contain them, and
# for the peer a python3 with PyTorch ($PYTHON names another). `make build-gpu` builds
# ensemble and the test programs. They are searched in the folder of this script and in
# build/gpu. Nothing is installed, fetched or compiled here.
#
# Exit: 0 the report is written, with any result; 64 usage; 69 the programs are missing
# or do not start.
set -u

fail() { # fail CODE WHAT WHY FIX
  printf 'gpu.sh: error[E%03d]: %s\n  why: %s\n  fix: %s\n' "$1" "$2" "$3" "$4" >&2
  exit "$1"
}

here=$(cd "$(dirname "$0")" && pwd)
out=gpu.json quick=0 peer=1 emulated=0 budget=480
while [ $# -gt 0 ]; do
  case $1 in
    --out) [ $# -gt 1 ] || fail 64 "--out needs a file" "nothing follows it" "gpu.sh --out gpu.json"; out=$2; shift ;;
    --budget) budget=${2:-}; [[ $budget =~ ^[1-9][0-9]*$ ]] || fail 64 "--budget needs seconds" "'$budget' is no whole number" "gpu.sh --budget 480"; shift ;;
    --quick) quick=1 ;;
    --no-peer) peer=0 ;;
    --emulated) emulated=1 ;;
    -h | --help) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) fail 64 "unknown option $1" "known are --out --quick --no-peer --budget --emulated" "gpu.sh --help" ;;
  esac
  shift
done

for dir in "$here" "$here/../build/gpu" build/gpu; do
  [ -x "$dir/ensemble" ] && break
done
[ -x "$dir/ensemble" ] || fail 69 "ensemble is missing" "it is neither beside this script nor in build/gpu" "make build-gpu, and copy the folder build/gpu"
dir=$(cd "$dir" && pwd)
ensemble=$dir/ensemble
python=${PYTHON:-python3}
script=$here/gpu_pytorch.py
command -v timeout >/dev/null || fail 69 "timeout is missing" "parts must be able to hang without harm" "install coreutils"

# Both sides use the libraries that PyTorch brings, unless the user names others.
if [ -z "${ENSEMBLE_CUDA_PATH:-}" ]; then
  packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)
  if [ -n "$packages" ] && [ -d "$packages/nvidia" ]; then export ENSEMBLE_CUDA_PATH=$packages; fi
fi

parts=$out.parts
rm -rf "$parts" && mkdir -p "$parts" || fail 69 "$parts cannot be made" "see above" "choose another --out"
setting() { printf '%s\t%s\n' "$1" "$2" >>"$parts/settings"; }
setting started "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
for s in quick peer emulated budget; do setting "$s" "${!s}"; done
setting kernel "$(uname -r)"
setting cuda_path "${ENSEMBLE_CUDA_PATH:-}"
if command -v nvidia-smi >/dev/null; then
  setting nvidia_smi "$(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,clocks.sm,temperature.gpu,power.limit,clocks_throttle_reasons.active --format=csv,noheader 2>&1 | tr '\n\t' '; ')"
fi

begun=$(date +%s%N)
elapsed() { echo $((($(date +%s%N) - begun) / 1000000)); } # ms
listed() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$parts/list"; }
skip() { listed "$1" 0 0 0 "left out: $2"; }

# part NAME SECONDS COMMAND...: runs it for so long at most, and no longer than the budget.
part() {
  local name=$1 limit=$2 start took code
  shift 2
  start=$(elapsed)
  local left=$((budget - start / 1000))
  if [ $left -lt 3 ]; then skip "$name" "no time was left"; return 1; fi
  [ "$limit" -le $left ] || limit=$left
  printf '%4d s  %s\n' $((start / 1000)) "$name" >&2
  timeout -k 5 "$limit" "$@" >"$parts/$name.json" 2>"$parts/$name.log" </dev/null
  code=$?
  took=$(($(elapsed) - start))
  listed "$name" $code "$((took / 1000)).$(printf %03d $((took % 1000)))" "$limit" ""
  return $code
}

sizes=() field2=(--field 2x352x704) globe2=(--field 2x361x720) globe11=(--field 11x361x720) one11=(--field 11x361x720 --batch 1) width=(--base 32) narrow=(--base 8) device=()
agree=(--base 8 --field 2x32x32 --batch 1) learn=(--base 4 --channels 8 --field 2x32x32 --batch 2)
if [ $emulated = 1 ]; then
  sizes=(--device emulated) field2=() globe2=(--field 2x7x8) globe11=(--field 3x7x8) one11=(--field 2x8x8 --batch 4) width=() narrow=() device=(--tiny) agree=() learn=()
fi
ours() { # ours NAME SECONDS COMMAND FLAGS...
  local name=$1 limit=$2 command=$3
  shift 3
  part "$name" "$limit" "$ensemble" bench device "$command" --json ${sizes[@]+"${sizes[@]}"} "$@"
}
theirs() { # theirs NAME SECONDS COMMAND FLAGS...
  local name=$1
  if [ $peer = 0 ]; then skip "$name" "$nopeer"; return 1; fi
  local limit=$2 command=$3
  shift 3
  part "$name" "$limit" "$python" "$script" "$command" --budget "$limit" ${device[@]+"${device[@]}"} "$@"
}

# Description of the machine. Without a device there is nothing to measure.
ours info 30 info
have=$?
nopeer="--no-peer"
if [ $peer = 1 ]; then
  if ! theirs peer-info 60 info; then
    peer=0
    nopeer="PyTorch is not there or finds no device: see peer-info"
  fi
fi

if [ $have = 0 ]; then
  # The published case, alternating with the peer.
  ours peak 60 peak
  theirs peer-peak 30 peak
  ours train 80 train --case unet3d-2 ${width[@]+"${width[@]}"} ${field2[@]+"${field2[@]}"}
  theirs peer-train 60 train --case unet3d-2 ${field2[@]+"${field2[@]}"} ${width[@]+"${width[@]}"} --batch 2 --forms d3_cl_graph,fold_cl_graph
  ours train-again 30 train --case unet3d-2 ${width[@]+"${width[@]}"} ${field2[@]+"${field2[@]}"}

  # Are the results correct?
  ours agree-f32 30 agree --case agree ${agree[@]+"${agree[@]}"} --precision f32
  ours agree-bf16 30 agree --case agree ${agree[@]+"${agree[@]}"} --precision bf16
  ours agree-f16 30 agree --case agree ${agree[@]+"${agree[@]}"} --precision f16
  run='^TestValues$/^cuda-1$' processes=$(($(nproc) / 2))
  [ $processes -le 8 ] || processes=8
  [ $processes -ge 1 ] || processes=1
  [ $emulated = 0 ] || run='^TestValues$/^cuda-1$/^(add|mul)$' processes=1
  part conformance 90 "$ensemble" bench device conformance --json --program "$dir/conformance.test" --run "$run" --processes $processes --time-limit 85

  # Predictions and the case of many levels.
  ours predict 25 predict --case predict-2 ${width[@]+"${width[@]}"} "${globe2[@]}" --batch 1
  theirs peer-predict 40 predict --case predict-2 ${width[@]+"${width[@]}"} "${globe2[@]}" --batch 1 --forms d3_cl_graph,fold_cl_graph
  ours predict-again 15 predict --case predict-2 ${width[@]+"${width[@]}"} "${globe2[@]}" --batch 1
  theirs peer-levels 60 train --case unet3d-11 ${width[@]+"${width[@]}"} "${globe11[@]}" --batch 2 --forms d3_cl
  ours levels 50 train --case unet3d-11 ${width[@]+"${width[@]}"} "${globe11[@]}" --batch 2 --smaller-batch

  # Memory, training, and the parts of the backend separately.
  ours memory 40 memory ${width[@]+"${width[@]}"} "${one11[@]}"
  [ $quick = 1 ] || ours learn 60 learn ${learn[@]+"${learn[@]}"}

  # Other precisions, the narrow network.
  ours train-tf32 40 train --case unet3d-2 ${width[@]+"${width[@]}"} ${field2[@]+"${field2[@]}"} --precision tf32 --seconds 2
  ours train-f32 60 train --case unet3d-2 ${width[@]+"${width[@]}"} ${field2[@]+"${field2[@]}"} --precision f32 --seconds 1
  ours train-f16 40 train --case unet3d-2 ${width[@]+"${width[@]}"} ${field2[@]+"${field2[@]}"} --precision f16 --seconds 2
  if [ $quick = 0 ]; then
    theirs peer-tf32 30 train --case unet3d-2 ${width[@]+"${width[@]}"} ${field2[@]+"${field2[@]}"} --batch 2 --precision tf32 --forms d3_cl_graph,fold_cl_graph
    ours narrow 20 train --case unet3d-2-narrow ${narrow[@]+"${narrow[@]}"} ${field2[@]+"${field2[@]}"} --seconds 2
    theirs peer-narrow 30 train --case unet3d-2-narrow ${narrow[@]+"${narrow[@]}"} ${field2[@]+"${field2[@]}"} --batch 2 --forms d3_cl_graph,fold_cl_graph
    sanitizer=
    for s in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer"; do
      [ -n "$sanitizer" ] || sanitizer=$(command -v "$s")
    done
    if [ $emulated = 1 ]; then skip sanitizer "there is no device"
    elif [ -z "$sanitizer" ]; then skip sanitizer "compute-sanitizer is not there"
    else
      part sanitizer 60 bash -c '"$1" --tool memcheck --print-limit 20 "$2" -test.run "^TestValues$/^cuda-1$/^(conv3d|conv3d_fused|conv3d_grad_data|conv3d_grad_filter|max_pool|upsample|channel_sum|concat)$" >&2
        n=$(sed -n "s/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p" "$3" | tail -n 1)
        [ -n "$n" ] && printf "{\"case\":\"sanitizer\",\"tool\":\"memcheck\",\"sanitizer_errors\":%d}\n" "$n"' - "$sanitizer" "$dir/conformance.test" "$parts/sanitizer.log"
    fi
  fi
  for package in cuda cudnn nccl; do
    if [ $emulated = 1 ]; then skip "tests-$package" "there is no device"
    elif [ ! -x "$dir/$package.test" ]; then skip "tests-$package" "$package.test is not beside the others"
    else part "tests-$package" 150 "$ensemble" bench device conformance --json --case "tests-$package" --program "$dir/$package.test" --run '^TestDevice' --time-limit 145
    fi
  done
fi

[ $have != 0 ] || ours info-again 20 info # warmer now
setting seconds $(($(elapsed) / 1000))
"$ensemble" bench device report --results "$parts" --out "$out" >&2 || fail 69 "the report could not be written" "see above" "what was measured is in $parts"
echo "gpu.sh: $out" >&2
