import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('init_time', ('init_time',), [0.], units='hours since 2000-01-01'); f.add('lead_time', ('lead_time',), [6, 12], 'i4'); f.axes()
f.add('t2m', ('init_time', 'lead_time', 'lat', 'lon'), fields((1, 2)), 'f4', units='K'); f.close()
expect('leads without a unit', refusal=dict(code=65, words=['leads "lead_time"', 'no unit', 'ncatted -a units,lead_time,c,c,hours']))
