import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('init', ('init',), [0.], units='days since 2000-01-01'); f.add('lead', ('lead',), [0.5, 1.5], units='months'); f.axes()
f.add('t2m', ('init', 'lead', 'lat', 'lon'), fields((1, 2)), 'f4', units='K'); f.close()
expect('middles of months as leads', refusal=dict(code=65, words=['lead 0.5 is not a number of calendar months', 'standard_name "time"']))
