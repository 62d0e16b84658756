# What a reader of the pages has: forecasts in fc, analyses in an, train.yaml, machine.yaml, and with "trained NAME…" finished
# trainings in runs. Sourced in an empty folder; PAGE_DATA has the demo's data of few initialisations.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
mkdir fc an runs
for f in "$PAGE_DATA"/demo_fc_*.grib2; do ln -s "$f" "fc/${f##*demo_fc_}"; done
for f in "$PAGE_DATA"/demo_an_*.nc; do ln -s "$f" "an/${f##*demo_an_}"; done
cat > train.yaml <<'END'
version: 1
data:
  forecasts: [fc/*.grib2]
  analyses: [an/*.nc]
  members: {use: 5, full: 10}
  leads: [0h, 24h, 48h]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets: [{variable: t, levels: [850hPa, 500hPa]}]
  split:
    train: {from: 2025-01-01, to: 2025-08-31}
    validation: {from: 2025-09-01, to: 2025-12-25}
    test: {from: 2026-01-01, to: 2026-12-31}
model: {base: 4, stages: 2}
train: {epochs: 2, networks: 1, learning_rate: 0.003}
END

# trained NAME [OPTION…] trains into runs/NAME.
trained() { name=$1; shift; ensemble train -q -c train.yaml --run-dir "runs/$name" "$@"; }
# published NAME predicts the test initialisations into products.
published() { ensemble predict -q --run-dir "runs/$1" --input "fc/202601*.grib2" --out products; }
