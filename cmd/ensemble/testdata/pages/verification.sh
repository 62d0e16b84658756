# runs/b is better than runs/a, which hardly learned.
trained a --set train.epochs=1 --set train.learning_rate=0.000001
trained b --set train.epochs=8
published a
printf 'version: 1\nrun_dir: runs/a\ninput: ["fc/202601*.grib2"]\n' > predict.yaml
