package setup

// SlowInt8Warning warns about int8 predictions on a processor without AVX512_VNNI.
const SlowInt8Warning = "this processor has no AVX512_VNNI: int8 predictions have the same values, but are slower than those of the unquantised model"
