import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('plev', ('plev',), [85000., 70000.], standard_name='air_pressure', units='Pa', positive='down', bounds='plev_bnds'); f.add('plev_bnds', ('plev', 'bnds'), [[92500., 77500.], [77500., 65000.]])
x = fields((2, 1, 2)); f.add('ta', ('number', 'time', 'plev', 'lat', 'lon'), x, 'f4', standard_name='air_temperature', units='K', cell_methods='plev: mean'); f.close()
expect('means over layers of pressure', variables={'t': variable(np.float32(x), members=[1, 2], levels=['775-925hPa', '650-775hPa'])})
