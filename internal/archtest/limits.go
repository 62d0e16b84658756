package archtest

// limits are sizes that a reader can hold in the head.
var limits = map[string]int{
	"package lines":               6000, // an hour's reading; Go without tests
	"function lines":              100,
	"function lines of a command": 60, // flags in, one call, exit code out
	"arguments":                   6,  // without the receiver
	"fields":                      15, // of a struct
	"imports of ours":             35,
}

// An exception is what something may have above the limit, and why.
type exception struct {
	size int
	why  string
}

// Reasons that several have.
const (
	aColumn   = "a row of a table or of JSON that users read: a field is a column"
	aKey      = "a section of the configuration: a field is a key, and sections are named as users write them"
	ofFormula = "the arguments are those of the formula, in its order; a struct would name each twice"
	ofKernel  = "a thin call of a C kernel: its arguments are the kernel’s"
	oneThing  = "the state of one thing that is made, used and closed as a whole"
	ofFormat  = "what a file format says of a thing: a field is one of its entries"
	aFlag     = "flags of one command, one field each"
	oneStep   = "one step of a longer function, called once: a struct would be made for that call"
)

// exceptions by kind of limit, and by package.name.
var exceptions = map[string]map[string]exception{
	"package lines": {
		"engine/op": {7017, "one file an op: a reader opens the file of the op, not the package"},
	},
	"function lines": {
		"ensemble/run/bench.RanksOptions.measure":  {109, "a measurement in its order: warm up, time, gather, judge; its parts share every number"},
		"postproc/baseline.leastAbsolute.minimise": {124, "a walk from corner to corner of a linear program: its turns share the path and the point"},
	},
	"arguments": {
		"engine/backend/cpu/dnnl.SGEMM":                    {7, ofKernel},
		"engine/backend/cpu/kern.PointNorm.run":            {8, ofKernel},
		"engine/backend/cpu/kern.Pool.AddChannels":         {7, ofKernel},
		"engine/backend/cpu/kern.Pool.Axis":                {7, ofKernel},
		"engine/backend/cpu/kern.Pool.BlockedCombine":      {8, ofKernel},
		"engine/backend/cpu/kern.Pool.BlockedUpsampleGrad": {7, ofKernel},
		"engine/backend/cpu/kern.Pool.BlockedWindowGrad":   {7, ofKernel},
		"engine/backend/cpu/kern.Pool.Broadcast":           {8, ofKernel},
		"engine/backend/cpu/kern.Pool.CombineMid":          {7, ofKernel},
		"engine/backend/cpu/kern.Pool.CopyChannels":        {7, ofKernel},
		"engine/backend/cpu/kern.Pool.GaussianCRPS":        {7, ofKernel},
		"engine/backend/cpu/kern.Pool.SetCRPSGrad":         {7, ofKernel},
		"engine/backend/cpu/kern.Pool.move":                {8, ofKernel},
		"engine/backend/cpu/kern.Pool.rows":                {7, ofKernel},
		"engine/backend/cpu/kern.WinoCodes.Run":            {7, ofKernel},
		"engine/backend/cuda.work.copyLanes":               {7, oneStep},
		"engine/backend/cuda/cudnn.descriptors.tensor":     {8, oneStep},
		"engine/op.BatchNorm":                              {7, ofFormula},
		"engine/op.MultiScaleCRPS":                         {7, ofFormula},
		"engine/op.NormFusedGrad":                          {8, ofFormula},
		"engine/op.row2":                                   {7, ofFormula},
		"engine/op.row3":                                   {7, ofFormula},
		"ensemble.Forecast.MeanStd":                        {7, ofFormula},
		"ensemble/demo.addLegendre":                        {7, ofFormula},
		"ensemble/demo.message1":                           {8, ofFormula},
		"ensemble/demo.writing.fields":                     {7, oneStep},
		"ensemble/exchange.exportNetwork":                  {9, "one step of Export, which has all of them at hand; a struct would be made for one call"},
		"ensemble/model/network.Spec.Compile":              {7, oneStep},
		"ensemble/model/network.Spec.inEvent":              {8, oneStep},
		"ensemble/model/network.Spec.memberGraph":          {7, oneStep},
		"ensemble/run/casestudy.study.draw":                {7, oneStep},
		"ensemble/run/scoring.EachPrediction":              {7, oneStep},
		"ensemble/run/scoring.testPart":                    {7, oneStep},
		"io/product.ncBuilder.series":                      {8, oneStep},
		"postproc/neighbourhood.Discs.row":                 {7, ofFormula},
		"postproc/simd.NormalSums":                         {7, ofKernel},
		"postproc/simd.normalSums":                         {8, ofKernel},
		"spatial/sbp.weighted":                             {7, ofFormula},
		"unet3d.conv2D":                                    {7, ofFormula},
	},
	"fields": {
		"cmd/ensemble.app":                      {20, oneThing},
		"cmd/ensemble.benchFlags":               {22, aFlag},
		"engine.Explanation":                    {16, aColumn},
		"engine/backend/cpu/kern.Wino":          {17, oneThing},
		"engine/backend/cpu/kern.WinoSpec":      {16, oneThing},
		"engine/backend/cuda.Backend":           {18, oneThing},
		"engine/backend/cuda/cudnn.Convolution": {19, oneThing},
		"engine/backend/cuda/gpu.gpu":           {16, oneThing},
		"engine/graph.Op":                       {20, "what an op is, as passes and backends ask it"},
		"engine/op.Spec":                        {27, "the declaration of an op: ops are literals whose keys are read as a list"},
		"engine/pass.program":                   {18, oneThing},
		"ensemble/config.Data":                  {24, aKey},
		"ensemble/config.Model":                 {29, aKey},
		"ensemble/config.Training":              {28, aKey},
		"ensemble/demo.model":                   {17, oneThing},
		"ensemble/demo.physics":                 {24, "the constants of a model of the atmosphere"},
		"ensemble/experiment.CollectedScore":    {21, aColumn},
		"ensemble/experiment.VariedRow":         {26, aColumn},
		"ensemble/model.Model":                  {20, oneThing},
		"ensemble/model/task.Batch":             {19, "what reaches a network: a field is an input of its graph"},
		"ensemble/model/task.Task":              {17, "what a model is asked, as model.json has it"},
		"ensemble/record.Check":                 {18, aColumn},
		"ensemble/record.TimeToQuality":         {16, aColumn},
		"ensemble/run/bench.RanksReport":        {20, aColumn},
		"ensemble/run/bench.Result":             {40, aColumn},
		"ensemble/run/bench/device.line":        {24, aColumn},
		"ensemble/run/bench/device.trained":     {20, aColumn},
		"ensemble/run/bench/device.verdict":     {17, aColumn},
		"ensemble/run/casestudy.Row":            {21, aColumn},
		"ensemble/run/check.inspectRow":         {24, aColumn},
		"ensemble/run/plan.PlannedStep":         {21, aColumn},
		"ensemble/run/predict.Options":          {23, "what a prediction is asked: a field is an option of the command"},
		"ensemble/run/samples.StoreReport":      {16, aColumn},
		"ensemble/serve.metrics":                {17, "a field is a metric"},
		"ensemble/serve.state":                  {16, oneThing},
		"internal/testgrib.Message":             {16, ofFormat},
		"io.Input":                              {16, oneThing},
		"io/grib.Description":                   {19, ofFormat},
		"io/grib.Field":                         {23, ofFormat},
		"io/grib.axis":                          {19, ofFormat},
		"io/grib.savedField":                    {28, ofFormat},
		"io/product.Field":                      {19, ofFormat},
		"io/product.Manifest":                   {18, ofFormat},
		"io/product.Metadata":                   {19, ofFormat},
		"io/store.Meta":                         {21, ofFormat},
		"io/store.Selected":                     {16, oneThing},
		"io/zarr.Array":                         {16, ofFormat},
		"postproc/score.Calibration":            {22, aColumn},
		"postproc/score.Comparison":             {17, aColumn},
		"postproc/score.Coupling":               {17, aColumn},
		"postproc/score.DateScore":              {17, aColumn},
		"postproc/score.Score":                  {20, aColumn},
		"postproc/score.Share":                  {16, aColumn},
		"postproc/score.Value":                  {22, aColumn},
		"postproc/score.Yardstick":              {19, aColumn},
		"spatial.deviceExchange":                {16, oneThing},
		"spatial/search.Estimate":               {16, aColumn},
	},
	"imports of ours": {
		"cmd/ensemble":       {39, "a command calls its job, and there are forty"},
		"ensemble/run/train": {40, "a training joins data, model, engine, ranks and statistics; no other job does"},
	},
}
