package setup

// SlowInt8Warning warns of a processor that was not meant.
const SlowInt8Warning = "this processor has no AVX512_VNNI: predictions in int8 have the same numbers, and take longer than those of the training that was quantised"
