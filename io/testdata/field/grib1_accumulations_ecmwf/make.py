import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

# ecCodes: an instant in every archive; the local section has class (ERA5 is 23) and stream (oper 1025, enda 1030, enfo 1035).


def rain(k, marsClass, stream, lead, **keys):
    return message(1, 1e-3*abs(field(k, base=0.)), centre=98, indicatorOfTypeOfLevel=1, level=0, indicatorOfParameter=228, table2Version=128,
                   setLocalDefinition=1, localDefinitionNumber=1, marsClass=marsClass, marsType=keys.pop('marsType', 'pf'), marsStream=stream, P1=lead, timeRangeIndicator=0, **keys)


def kilograms(*m):
    """1 m of water is 1000 kg m-2."""
    return {k: 1000*x for k, x in span(*m).items()}


m = [rain(k, 'od', 'enfo', lead, perturbationNumber=k + 1, numberOfForecastsInEnsemble=2) for k in range(2) for lead in (6,)]
write('fc.grib1', *m)
expect('precipitation of ECMWF in edition 1, coded like an instant: a sum from the start of the forecast',
       variables={'tp': dict(members=[1, 2], leads=['6h'], statistic='sum', interval='6h', **kilograms(*m))})
