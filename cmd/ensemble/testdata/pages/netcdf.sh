# A person's files, as xarray saves them, and a short training.
python3 "$PAGES/own.py" . 60
cp "$(ls fc/*.grib2 | head -n 1)" forecast.grib2
export ENSEMBLE_TRAIN_EPOCHS=2
