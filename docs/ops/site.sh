# Settings of a site for all three suites. Every value may be set in the environment.
: "${ENSEMBLE:=ensemble}"                  # the program
: "${RUN_DIR:=/data/ensemble/runs/a}"      # of a finished training
: "${INPUT:=/data/fc}"                     # where forecasts arrive: *CYCLE*.grib2
: "${PRODUCTS:=/data/ensemble/products}"   # one folder an init
: "${LOGS:=/data/ensemble/logs}"
: "${DEADLINE:=init+6h40m}"                # of predict, which then continues with the available input
: "${AMEND_DEADLINE:=+6h}"                 # of amend, which waits for the missing input
: "${ALARM:=$OPS/alarm.sh}"                # called with: word, init, text
export ENSEMBLE RUN_DIR INPUT PRODUCTS LOGS DEADLINE AMEND_DEADLINE ALARM
