# Settings of a site for all three suites. Every value may be set in the environment.
: "${ENSEMBLE:=ensemble}"                  # the program
: "${RUN_DIR:=/data/ensemble/runs/a}"      # of a finished training
: "${INPUT:=/data/fc}"                     # where forecasts arrive: *INIT*.grib2, such as fc_2026010100_m00.grib2
: "${PRODUCTS:=/data/ensemble/products}"   # one folder an initialisation
: "${LOGS:=/data/ensemble/logs}"
: "${DEADLINE:=init+6h40m}"                # of predict, which then continues with the available input
: "${AMEND_DEADLINE:=init+18h}"            # of amend, which waits for late input
: "${AMEND_EVERY:=1800}"                   # seconds between products from more, but not all input
: "${TRIES:=4}"                            # of a step, at errors that may pass
: "${RETRY_DELAY:=5m}"                     # between tries
: "${DELIVER:=$OPS/deliver.sh}"            # called with: initialisation
: "${ALARM:=$OPS/alarm.sh}"                # called with: word, initialisation, text
export ENSEMBLE RUN_DIR INPUT PRODUCTS LOGS DEADLINE AMEND_DEADLINE AMEND_EVERY TRIES RETRY_DELAY DELIVER ALARM
