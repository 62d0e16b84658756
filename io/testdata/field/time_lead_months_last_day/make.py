import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('init', ('init',), [30.], units='days since 2000-01-01'); f.add('lead', ('lead',), [1, 2], 'i4', units='months'); f.axes()
f.add('t2m', ('init', 'lead', 'lat', 'lon'), fields((1, 2)), 'f4', units='K'); f.close()
expect('leads in months from 31 January', refusal=dict(code=65, words=['2000-01-31 has no such day in other months', 'standard_name "time"']))
