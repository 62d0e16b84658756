# A short training: the page uses the defaults of init.
export ENSEMBLE_TRAIN_EPOCHS=1
