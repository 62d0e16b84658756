import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('init', ('init',), [0.], units='days since 2000-02-01'); f.add('lead', ('lead',), [0.5, 1.5], units='months', bounds='lead_bnds'); f.add('lead_bnds', ('lead', 'bnds'), [[0., 1.], [1., 2.]]); f.axes()
x = fields((1, 2)); f.add('t2m', ('init', 'lead', 'lat', 'lon'), x, 'f4', units='K', cell_methods='lead: mean'); f.close()
expect('means over months between bounds', variables={'2t': variable(np.float32(x), unit='K', statistic='mean', interval='696h', leads=['696h', '1440h'])}, warnings=['leads "lead" are taken for calendar months'])
