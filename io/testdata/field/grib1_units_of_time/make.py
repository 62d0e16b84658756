import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

units = [(13, 1, '15m0s'), (13, 3, '45m0s'), (14, 3, '1h30m0s'), (254, 90, '1m30s'), (10, 2, '6h'), (3, 1, '744h'), (4, 1, '8760h')]
all_messages = []
for k, (unit, p1, lead) in enumerate(units):
    b = message(1, field(k), indicatorOfParameter=11, table2Version=2, centre=78, indicatorOfTypeOfLevel=105, level=2)
    all_messages.append(octets(b, 8, {18: bytes([unit, p1, 0, 0])}))
write('fc.grib1', *all_messages)
expect('units of time of edition 1: quarter and half hours, seconds, months and years from 1 March 2024', variables={'2t': dict(leads=[u[2] for u in units], unit='K', **span(*all_messages))})
