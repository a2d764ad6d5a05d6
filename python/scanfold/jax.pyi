# The package's own functions, but for out.
from typing import Any, List

from . import (all as all, any as any, argmax as argmax, argmin as argmin, count_nonzero as count_nonzero, cummax as cummax,
               cummean as cummean, cummin as cummin, cumprod as cumprod, cumsum as cumsum, cumvar as cumvar, layer_norm as layer_norm,
               linear_recurrence as linear_recurrence, log_softmax as log_softmax, logcumsumexp as logcumsumexp, logsumexp as logsumexp,
               max as max, mean as mean, min as min, norm as norm, normalize as normalize, prod as prod, rms_norm as rms_norm,
               softmax as softmax, standardize as standardize, std as std, sum as sum, sumsq as sumsq, var as var)

__all__: List[str]

def run(expression: str, /, **inputs: Any) -> Any: ...
