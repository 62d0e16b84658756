# What a site says once, for all three suites. Every value may be set before.
: "${ENSEMBLE:=ensemble}"                  # the program
: "${RUN_DIR:=/data/ensemble/runs/a}"      # of a finished training
: "${INPUT:=/data/fc}"                     # where forecasts arrive: *CYCLE*.grib2
: "${PRODUCTS:=/data/ensemble/products}"   # one folder a start
: "${LOGS:=/data/ensemble/logs}"
: "${DEADLINE:=+40m}"                      # of predict: then it goes on with what is there
: "${AMEND_DEADLINE:=+6h}"                 # of amend, which waits for the rest
: "${ALARM:=$OPS/alarm.sh}"                # called with: word, start, text
export ENSEMBLE RUN_DIR INPUT PRODUCTS LOGS DEADLINE AMEND_DEADLINE ALARM
