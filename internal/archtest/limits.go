package archtest

// limits are maximum sizes that keep code readable.
var limits = map[string]int{
	"package lines":               6000, // about an hour of reading; Go without tests
	"function lines":              100,
	"function lines of a command": 60, // flags in, one call, exit code out
	"arguments":                   6,  // without the receiver
	"fields":                      15, // of a struct
	"imports of ours":             35,
}

// exception is an allowed size above the limit, with the reason.
type exception struct {
	size int
	why  string
}

// Reasons that several exceptions share.
const (
	reasonColumn  = "a row of a table or of JSON: a field is a column"
	reasonKey     = "a section of the configuration: a field is a key"
	reasonFormula = "the arguments are those of the formula, in its order; a struct would name each twice"
	reasonKernel  = "a thin call of a C kernel: its arguments are the kernel’s"
	reasonState   = "the state of one object that is created, used and closed as a whole"
	reasonFormat  = "a record of a file format: a field is one of its entries"
	reasonFlag    = "flags of one command, one field each"
	reasonStep    = "one step of a longer function, called once: a struct would serve only that call"
)

// exceptions lists the exceptions by kind of limit and by package.name.
var exceptions = map[string]map[string]exception{
	"package lines": {
		"engine/op": {8200, "one file per op: a reader opens the file of an op, not the package"},
	},
	"function lines": {
		"postproc/baseline.leastAbsolute.minimise": {124, "a walk along vertices of a linear program: its steps share the path and the point"},
	},
	"arguments": {
		"engine/backend/cpu/dnnl.SGEMM":                    {7, reasonKernel},
		"engine/backend/cpu/kern.PointNorm.run":            {8, reasonKernel},
		"engine/backend/cpu/kern.Pool.AddChannels":         {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.Axis":                {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.BlockedCombine":      {8, reasonKernel},
		"engine/backend/cpu/kern.Pool.BlockedUpsampleGrad": {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.BlockedWindowGrad":   {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.Broadcast":           {8, reasonKernel},
		"engine/backend/cpu/kern.Pool.CombineMid":          {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.CopyChannels":        {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.GaussianCRPS":        {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.SetCRPSGrad":         {7, reasonKernel},
		"engine/backend/cpu/kern.Pool.moveChannels":        {8, reasonKernel},
		"engine/backend/cpu/kern.Pool.rows":                {7, reasonKernel},
		"engine/backend/cpu/kern.WinoInt8.Run":             {7, reasonKernel},
		"engine/backend/cpu/kern.WinoInt8.runDirect":       {7, reasonKernel},
		"engine/backend/cuda.work.copyLanes":               {7, reasonStep},
		"engine/backend/cuda/cudnn.descriptors.tensor":     {8, reasonStep},
		"engine/op.BatchNorm":                              {7, reasonFormula},
		"engine/op.MultiScaleCRPS":                         {7, reasonFormula},
		"engine/op.NormFusedGrad":                          {8, reasonFormula},
		"engine/op.row2":                                   {7, reasonFormula},
		"engine/op.row3":                                   {7, reasonFormula},
		"ensemble.Forecast.MeanStd":                        {7, reasonFormula},
		"ensemble/demo.addLegendre":                        {7, reasonFormula},
		"ensemble/demo.encodeGRIB1":                        {8, reasonFormula},
		"ensemble/demo.archiveWriter.writeFields":          {7, reasonStep},
		"ensemble/exchange.exportNetwork":                  {9, "one step of Export, which has all of them in variables; a struct would be made for one call"},
		"ensemble/model/network.Spec.Compile":              {7, reasonStep},
		"ensemble/model/network.Spec.eventScore":           {8, reasonStep},
		"ensemble/model/network.Spec.memberGraph":          {7, reasonStep},
		"ensemble/run/casestudy.study.drawMaps":            {7, reasonStep},
		"ensemble/run/scoring.EachPrediction":              {7, reasonStep},
		"ensemble/run/scoring.testPart":                    {7, reasonStep},
		"io/product.ncBuilder.addSeries":                   {8, reasonStep},
		"postproc/neighbourhood.Discs.meansOfRow":          {7, reasonFormula},
		"postproc/simd.NormalSums":                         {7, reasonKernel},
		"postproc/simd.normalSums":                         {8, reasonKernel},
		"unet3d.conv2D":                                    {7, reasonFormula},
	},
	"fields": {
		"cmd/ensemble.app":                      {20, reasonState},
		"cmd/ensemble.benchFlags":               {27, reasonFlag},
		"engine.Explanation":                    {18, reasonColumn},
		"engine/backend/cpu/kern.Wino":          {17, reasonState},
		"engine/backend/cpu/kern.WinoSpec":      {16, reasonState},
		"engine/backend/cuda.Backend":           {18, reasonState},
		"engine/backend/cuda/cudnn.Convolution": {19, reasonState},
		"engine/backend/cuda/gpu.gpu":           {16, reasonState},
		"engine/graph.Op":                       {20, "the definition of an op, as passes and backends read it"},
		"engine/op.Spec":                        {27, "the declaration of an op: ops are literals whose keys are read as a list"},
		"engine/pass.orderModel":                {18, reasonState},
		"ensemble.Kind":                         {16, "the properties of a field that its keys do not have: a field is a property"},
		"ensemble/config.Data":                  {27, reasonKey},
		"ensemble/config.Model":                 {29, reasonKey},
		"ensemble/config.Training":              {33, reasonKey},
		"ensemble/demo.model":                   {17, reasonState},
		"ensemble/demo.physics":                 {24, "the constants of a model of the atmosphere"},
		"ensemble/experiment.CollectedScore":    {21, reasonColumn},
		"ensemble/experiment.StudyRow":          {28, reasonColumn},
		"ensemble/hook.Issued":                  {19, reasonColumn},
		"ensemble/model.Model":                  {20, reasonState},
		"ensemble/model/task.Batch":             {20, "the inputs of a network: a field is an input of its graph"},
		"ensemble/model/task.Task":              {19, "the task of a model, a record of model.json"},
		"ensemble/record.Check":                 {18, reasonColumn},
		"ensemble/record.TimeToQuality":         {16, reasonColumn},
		"ensemble/run/bench.RanksReport":        {22, reasonColumn},
		"ensemble/run/bench.Result":             {43, reasonColumn},
		"ensemble/run/bench/device.answerLine":  {24, reasonColumn},
		"ensemble/run/bench/device.trained":     {20, reasonColumn},
		"ensemble/run/bench/device.suiteResult": {17, reasonColumn},
		"ensemble/run/casestudy.Row":            {21, reasonColumn},
		"ensemble/run/check.inspectRow":         {29, reasonColumn},
		"ensemble/run/explain.Options":          {17, reasonFlag},
		"ensemble/run/plan.PlannedStep":         {21, reasonColumn},
		"ensemble/run/plan.Result":              {16, reasonColumn},
		"ensemble/run/predict.Options":          {26, "the options of a prediction: a field is an option of the command"},
		"ensemble/run/samples.StoreReport":      {16, reasonColumn},
		"internal/testgrib.Message":             {17, reasonFormat},
		"io.Input":                              {17, reasonState},
		"io/grib.Description":                   {20, reasonFormat},
		"io/grib.Field":                         {26, reasonFormat},
		"io/grib.gridParameters":                {20, reasonFormat},
		"io/grib.savedField":                    {37, reasonFormat},
		"io/product.Field":                      {20, reasonFormat},
		"io/product.Manifest":                   {20, reasonFormat},
		"io/product.Metadata":                   {19, reasonFormat},
		"io/store.Meta":                         {24, reasonFormat},
		"io/store.SelectionReader":              {16, reasonState},
		"io/zarr.Array":                         {16, reasonFormat},
		"ensemble/run/optimum.Share":            {16, reasonColumn},
		"postproc/score.Calibration":            {22, reasonColumn},
		"postproc/score.Comparison":             {20, reasonColumn},
		"postproc/score.Coupling":               {17, reasonColumn},
		"postproc/score.DateScore":              {19, reasonColumn},
		"postproc/score.Score":                  {21, reasonColumn},
		"postproc/score.SkillComponent":         {18, reasonColumn},
		"postproc/score.Value":                  {25, reasonColumn},
		"postproc/score.IdealScore":             {19, reasonColumn},
		"postproc/score.Period":                 {18, reasonColumn},
		"spatial.deviceExchange":                {16, reasonState},
		"spatial/search.Estimate":               {17, reasonColumn},
	},
	"imports of ours": {
		"cmd/ensemble":        {44, "there are forty commands, and each calls its job"},
		"ensemble/experiment": {43, "experiments run jobs of every kind, and record what they read and wrote"},
		"ensemble/run/train":  {44, "only training combines data, model, engine, ranks and statistics"},
	},
}
